"""The names of a store's rows: what tells a row from the others, and the rows that words name."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from harness.data.corpora import NEIGHBOURS, file_of
from harness.data.shapes import split_name
from harness.errors import UserError, suggest
from harness.report.cells import percent_text
from harness.report.groups import Group
from harness.report.matching import best_on_dev
from harness.trials.record import FAMILY_COLUMNS, four_digits, searched_names
from harness.trials.record_files import is_text

_Kind = tuple[str | None, ...]
"""Method, setting and encoder"""
NamedRow = tuple[str, Group]
"""The name of a row, and its trials"""
Searched = Mapping[_Kind, Collection[str]]
"""The hyperparameters that the searches of a kind have varied"""


def searched_by(trials: pa.Table) -> Searched:
    """The hyperparameters that searches of each method, setting and encoder have values for."""
    searched: dict[_Kind, set[str]] = defaultdict(set)
    kinds = (trials[name].to_pylist() for name in (*FAMILY_COLUMNS[:3], "searched"))
    for *kind, names in set(zip(*kinds, strict=True)):
        searched[tuple(kind)].update((names or "").split())
    of_search = trials.select([*FAMILY_COLUMNS, "configuration"]).filter(
        is_text(trials["role"], "search")
    )
    for (*kind, _), names in searched_names(of_search).items():
        searched[tuple(kind)].update(names)
    return searched


def names_of(groups: list[Group], searched: Searched) -> dict[str, list[str]]:
    """The text columns, which tell the groups apart: heading -> a value for each group."""
    columns = {
        "method": [group.method for group in groups],
        "setting": [group.setting for group in groups],
        "encoder": [group.encoder for group in groups],
    }
    if any(group.label_fraction not in (None, 1) for group in groups):
        columns["labels"] = [percent_text(group.label_fraction) for group in groups]
    if any(configurations := _configurations(groups, searched)):
        columns["configuration"] = configurations
    return columns


def short_names(groups: Sequence[Group]) -> list[str]:
    """Names of groups in few words: the method, and what differs from the others."""
    columns = names_of(list(groups), {})
    shown = {
        heading: values
        for heading, values in columns.items()
        if heading == "method" or len(set(values)) > 1
    }
    return [" ".join(filter(None, each)) for each in zip(*shown.values(), strict=True)]


def _configurations(groups: list[Group], searched: Searched) -> list[str]:
    """For each group, what tells it from the others of its method, setting and encoder.

    The values that a search has chosen are named in any case. It is "" for a group that is the only
    one of these, and that no search has chosen.
    """
    traits = [_traits(group) for group in groups]
    kinds: list[_Kind] = [(group.method, group.setting, group.encoder) for group in groups]
    alike: dict[_Kind, list[dict[str, str]]] = defaultdict(list)
    for kind, own in zip(kinds, traits, strict=True):
        alike[kind].append(own)
    named = {kind: _varied(own).union(searched.get(kind, ())) for kind, own in alike.items()}
    rows = list(zip(groups, kinds, traits, strict=True))
    exact = [_listed(own, named[kind]) for _, kind, own in rows]
    short = [_short(group, own, named[kind]) for group, kind, own in rows]
    # Where four digits and the names of files do not tell groups apart, all is shown.
    meant = defaultdict[tuple[_Kind, str], set[str]](set)
    for kind, shown, whole in zip(kinds, short, exact, strict=True):
        meant[kind, shown].add(whole)
    return [
        shown if len(meant[kind, shown]) == 1 else whole
        for kind, shown, whole in zip(kinds, short, exact, strict=True)
    ]


def _listed(values: Mapping[str, str], names: Collection[str]) -> str:
    return ", ".join(f"{name}={values[name]}" for name in sorted(values.keys() & names))


def _short(group: Group, own: Mapping[str, str], names: Collection[str]) -> str:
    """These values of a group as people read them: numbers in four digits, files by their names."""
    values = {name: own[name] for name in own.keys() & names}
    short = {
        name: four_digits(value) if isinstance(value, float) else file_name(text)
        for name, text in values.items()
        for value in [group.configuration.get(name)]
    }
    if any(file_of(text) for text in values.values()):
        short.pop("data_digest", None)  # the name of the file says it
    return _listed(short, short.keys())


def file_name(text: str) -> str:
    """The value of a hyperparameter, which names a user's file without its folder."""
    path = file_of(text)
    whole = split_name(text)[0].removeprefix(NEIGHBOURS)
    return text.replace(whole, path.name, 1) if path else text


def _varied(traits: list[dict[str, str]]) -> set[str]:
    """The names whose values differ, or that some of them lack."""
    names = {name for own in traits for name in own}
    return {name for name in names if len({own.get(name) for own in traits}) > 1}


def _traits(group: Group) -> dict[str, str]:
    """The hyperparameters and the shortened digests of a group, as text.

    The label fraction is left out, because it is a column of its own, and so is label subset 0,
    which is the default.
    """
    hyperparameters = {
        name: text_of(value)
        for name, value in group.configuration.items()
        if name != "label_fraction" and (name, value) != ("subset", 0)
    }
    return hyperparameters | {name: str(value)[:8] for name, value in group.provenance.items()}


def text_of(value: Any) -> str:
    """The value of a hyperparameter as a table shows it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def rows_named(
    words: tuple[str, str], groups: Sequence[Group], suite: str | None = None
) -> list[tuple[NamedRow, NamedRow]] | None:
    """The two rows that the words name; several pairs where methods were run in several ways.

    groups: those of the store, in the order of its table. suite: the one that is compared; None:
    any. Of pairs of methods those are left out that have no such suite in common, and then those
    of another protocol, unless all are such. None: a word names no row. Raises UserError for a
    number that no row has, for a row beside a word that names none, and for two methods that have
    nothing in common.
    """
    named = [_groups_named(word, groups) for word in words]
    for word, of_word, other in zip(words, named, words[::-1], strict=True):
        if of_word and not is_key_of(word, of_word[0].keys[0]) and not all(named):
            methods = dict.fromkeys(group.method for group in groups)
            raise UserError(
                f'"{other}" names no row, method or trial of the store, which row "{word}" could '
                f"be compared with{suggest(other, methods)}"
            )
    if not all(named):
        return None
    first, second = named
    if len(first) == 1 or len(second) == 1:
        pairs = [(one, two) for one in first for two in second]
    else:
        pairs = [(one, two) for one in first for two in second if _way(one) == _way(two)]
    if not pairs:
        raise UserError(
            f"{words[0]} and {words[1]} have no setting and encoder in common; name two rows of "
            f"`harness table` by their numbers"
        )
    shared = [(pair, _suites(pair[0]) & _suites(pair[1])) for pair in pairs]
    alike = [pair for pair, suites in shared if (suite in suites if suite else suites)]
    alike = alike or pairs
    today = [pair for pair in alike if all(group.current for group in pair)]
    return [_with_names(pair) for pair in today or alike]


def is_key_of(word: str, key: str) -> bool:
    """Whether a word is the beginning of a key; a shorter one is the number of a row."""
    return len(word) >= 4 and key.startswith(word)


def _suites(group: Group) -> frozenset[str]:
    return frozenset(str(part.suite) for part in group.parts)


def _groups_named(word: str, groups: Sequence[Group]) -> list[Group]:
    """The groups that a word names; none where it is no row, no method and no trial of the store.

    Of a method, the best on dev for each setting and encoder, and for the suites that measured it.
    """
    of_trial = [
        replace(group, trials=(trial,))
        for group in groups
        for trial in group.trials
        if is_key_of(word, trial.key)
    ]
    if word.isdecimal() and len(word) < 10 and not of_trial:
        if not 1 <= int(word) <= len(groups):
            there = f"the rows of `harness table` are 1 to {len(groups)}"
            raise UserError(f"there is no row {word}: {there if groups else 'the store is empty'}")
        return [groups[int(word) - 1]]
    if of_trial:
        return of_trial[:1]
    alike: dict[Any, list[Group]] = defaultdict(list)
    for group in groups:
        if group.method == word:
            alike[_way(group), _suites(group)].append(group)
    return [best_on_dev(own) for own in alike.values()]


def _way(group: Group) -> tuple[str, str, float]:
    return group.setting, group.encoder, group.label_fraction or 1


def _with_names(pair: tuple[Group, Group]) -> tuple[NamedRow, NamedRow]:
    first, second = pair
    one, two = short_names(pair)
    if one == two:  # two trials of one row
        one, two = (f"{one} {group.keys[0][:10]}" for group in pair)
    return (one, first), (two, second)
