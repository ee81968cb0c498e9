"""The configuration of a method from the values that are given, the paper's values and defaults."""

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from harness.data.shapes import Accepts
from harness.errors import NotHere, UserError, reason, suggest
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.declared import Declared
from harness.plugin.registry import Plugin

CORPUS = "corpus"
"""A name of the training corpus that every method understands, whatever its own field is called"""


def corpus_fields(plugin: Plugin) -> list[str]:
    """The hyperparameters of a method that name a corpus; it may train on a part of them."""
    return [
        name
        for name, field in plugin.config_type.model_fields.items()
        if any(isinstance(mark, Accepts) for mark in field.metadata)
    ]


def unread_corpora(plugin: Plugin, declared: Declared) -> set[str]:
    """The fields that name a corpus which a method does not read under a configuration."""
    corpora = {*declared.corpora.values()}
    return {name for name in corpus_fields(plugin) if getattr(declared.config, name) not in corpora}


def with_own_corpus(
    plugin: Plugin, values: Mapping[str, Any], beside: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """The values with `corpus` under the name that the method has for its training corpus.

    beside: what else the method is given. Raises UserError where the method trains on several
    corpora, and where the corpus is given under both names.
    """
    fields = plugin.config_type.model_fields
    if CORPUS not in values or CORPUS in fields:
        return values
    others = {name: value for name, value in values.items() if name != CORPUS}
    all_given = {**(beside or {}), **others}
    config = resolve(plugin, {name: all_given[name] for name in all_given if name in fields})
    unread = unread_corpora(plugin, plugin.declare(config))
    own = [name for name in corpus_fields(plugin) if name not in unread]
    if len(own) > 1:
        raise UserError(
            f"{plugin.name} trains on {len(own)} corpora here; name each: {', '.join(own)}"
        )
    name = own[0] if own else CORPUS
    if name in others:
        raise UserError(f"{plugin.name}: {CORPUS} and {name} are one thing; leave out one of them")
    return {**others, name: values[CORPUS]}


def resolve(plugin: Plugin, values: Mapping[str, Any], where: str = "") -> MethodConfig:
    """The method's configuration from given values, the paper's values and defaults.

    Raises UserError for an unknown hyperparameter, a wrong type or a value out of range. `where` is
    the beginning of its message, such as a file and a line.
    """
    values = with_own_corpus(plugin, values)
    check_names(plugin, values, where)
    try:
        return plugin.config_type(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")  # a rule between fields has no name
        value = "" if first["type"] == "missing" else f" = {first.get('input')!r}"
        field = f"{name}{value}: " if name else ""
        raise UserError(f"{where}{plugin.name}: {field}{message}") from None
    except UserError:
        raise
    except Exception as error:  # a plugin's own rules may raise anything
        raise UserError(
            f"{where}{plugin.name}: its configuration raises {reason(error)}"
        ) from error


def check_names(plugin: Plugin, names: Iterable[str], where: str = "") -> None:
    """Raises UserError for a name that is no hyperparameter of a method. `where`: as `resolve`."""
    fields = plugin.config_type.model_fields
    for name in names:
        if name not in fields:
            near = "; it is an option: --seed" if name == "seed" else suggest(name, fields)
            raise UserError(f'{where}method {plugin.name} has no hyperparameter "{name}"{near}')


class Configuration(Mapping[str, Any]):
    """Values that a method is given, and what it declares under them.

    They are resolved once, when it is made, and all trials with these values share it. As a mapping
    it has the values as they were given, but for those without effect, and the content of a file
    for DeepSpeed. Raises UserError as `resolve` and `registry.load`.
    """

    without_effect: frozenset[str]
    """Names of values that were given and change nothing beside the others"""

    def __init__(self, method: str, values: Mapping[str, Any]) -> None:
        """method: name or path of the plugin."""
        plugin = registry.load(method)
        self.method, self._values = method, dict(with_own_corpus(plugin, values))
        self.declared = plugin.declare(resolve(plugin, self._values))
        unread = _unread(plugin, self.declared, self._values.keys())
        unused = unread | self.declared.config.unused_fields()
        self.without_effect = frozenset(self._values.keys() & unused)
        if unread:
            for name in unread:
                del self._values[name]
            self.declared = plugin.declare(resolve(plugin, self._values))
        if self._values.get("deepspeed"):  # the file itself is on this machine alone
            self._values["deepspeed"] = dict(self.declared.config)["deepspeed"]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _unread(plugin: Plugin, declared: Declared, names: Set[str]) -> set[str]:
    """Names of corpora that the method does not read under a configuration, and of the share of
    labels where none of its corpora has labels.
    """
    unread = unread_corpora(plugin, declared)
    with suppress(NotHere):  # it is not known yet whether a corpus has labels
        if names & {"label_fraction", "subset"}:
            labelled = any(corpus.labelled for corpus in declared.sources)
            unread |= set() if labelled else {"label_fraction"}
            unread |= set() if declared.draws_labels else {"subset"}
    return unread & names


def given_values(plugin: Plugin, config: MethodConfig) -> dict[str, Any]:
    """Hyperparameter -> value; with these and the encoder, the method has this configuration.

    All others have their published values, or follow from the given ones.
    """
    wanted = dict(config)
    values: dict[str, Any] = {"encoder": config.encoder, "setting": config.setting}
    # A given value may change what others follow from it, so one comparison is not enough.
    while differing := _differing(plugin, values, wanted):
        values |= differing
    # The setting goes last, since what is published depends on it.
    for name in [*[*values][:1:-1], "setting"]:
        fewer = {other: value for other, value in values.items() if other != name}
        if not _differing(plugin, fewer, wanted):
            values = fewer
    del values["encoder"]
    return values


def _differing(plugin: Plugin, values: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The values that a method lacks when some are given."""
    try:
        current = dict(resolve(plugin, values))
    except UserError:  # some values go together only
        current = {}
    return {
        name: value
        for name, value in wanted.items()
        if name not in values and (name not in current or current[name] != value)
    }
