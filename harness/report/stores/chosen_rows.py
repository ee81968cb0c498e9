"""The rows of a store's table that words name: by number, by method, or by the key of a trial."""

from collections.abc import Sequence
from dataclasses import replace

from harness.errors import UserError, suggest
from harness.report.measured.groups import Group
from harness.report.published.matching import best_on_dev
from harness.report.stores.row_names import names_of

Row = tuple[str, Group]
"""The name of a row, and its trials"""


def rows_named(words: tuple[str, str], groups: Sequence[Group]) -> list[tuple[Row, Row]] | None:
    """The two rows that the words name; several pairs where methods were run in several ways.

    groups: those of the store, in the order of its table. None: a word names no row. Raises
    UserError for a number that no row has, for a row beside a word that names none, and for two
    methods that have nothing in common.
    """
    named = [_named(word, groups) for word in words]
    for word, found, other in zip(words, named, words[::-1], strict=True):
        is_key = found and found[0].keys[0].startswith(word)
        if found and not is_key and not all(named):
            known = dict.fromkeys(group.method for group in groups)
            raise UserError(
                f'"{other}" names no row, method or trial of the store, which row "{word}" could '
                f"be compared with{suggest(other, known)}"
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
    return [_with_names(pair) for pair in pairs]


def names(groups: Sequence[Group]) -> list[str]:
    """What tells each group from the others, in few words: its method, and what differs."""
    columns = names_of(list(groups), {})
    shown = {
        heading: values
        for heading, values in columns.items()
        if heading == "method" or len(set(values)) > 1
    }
    return [" ".join(filter(None, each)) for each in zip(*shown.values(), strict=True)]


def _named(word: str, groups: Sequence[Group]) -> list[Group]:
    """The groups that a word names; none where it is no row, no method and no trial of the store.

    Of a method, the best on dev for each setting and encoder.
    """
    of_trial = [
        replace(group, trials=(trial,))
        for group in groups
        for trial in group.trials
        if len(word) >= 4 and trial.key.startswith(word)
    ]
    if word.isdecimal() and len(word) < 10 and not of_trial:
        if not 1 <= int(word) <= len(groups):
            there = f"the rows of `harness table` are 1 to {len(groups)}"
            raise UserError(f"there is no row {word}: {there if groups else 'the store is empty'}")
        return [groups[int(word) - 1]]
    if of_trial:
        return of_trial[:1]
    ways = dict.fromkeys(_way(group) for group in groups if group.method == word)
    return [
        best_on_dev(group for group in groups if group.method == word and _way(group) == way)
        for way in ways
    ]


def _way(group: Group) -> tuple[str, str, float]:
    return group.setting, group.encoder, group.label_fraction or 1


def _with_names(pair: tuple[Group, Group]) -> tuple[Row, Row]:
    first, second = pair
    one, two = names(pair)
    if one == two:  # two trials of one row
        one, two = (f"{one} {group.keys[0][:10]}" for group in pair)
    return (one, first), (two, second)
