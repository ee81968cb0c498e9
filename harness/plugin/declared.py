"""Declarations of a plugin for one configuration. Each hook is called once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, InstanceOf, TypeAdapter, ValidationError

from harness.data.corpora import count_items, source
from harness.data.hub import model_digest
from harness.data.items import label_subset
from harness.data.registered_corpora import Source
from harness.data.shapes import Accepts
from harness.errors import NotHere, UserError, explained, suggest
from harness.files import digest, digest_files
from harness.plugin.config import MethodConfig, TrainingConfig, label_share
from harness.plugin.declaration import Declaration
from harness.plugin.stage import Artefact, Stage

T = TypeVar("T")


class Declaring(Protocol):
    """A plugin, as far as it declares and is built; see harness.plugin.registry.Plugin."""

    @property
    def name(self) -> str: ...
    @property
    def source_digest(self) -> str: ...
    @property
    def declaration(self) -> type[Declaration[Any]]: ...
    @property
    def method(self) -> Any: ...
    @property
    def passes(self) -> Any: ...


class _ArtefactFields(BaseModel):
    """The kinds of those fields of an artefact that name something."""

    model_config = ConfigDict(strict=True, from_attributes=True, defer_build=True)

    name: str
    fields: Sequence[str]
    models: Sequence[str] | None


_PARTS: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "stages": ("a stage", TypeAdapter(Stage)),
    "artefacts": ("an artefact", TypeAdapter(_ArtefactFields)),
}
"""Hook -> what its answer is a list of, and the kinds of its fields"""


def _part_problem(hook: str, part: Any, config: MethodConfig) -> str:
    """The fault of a stage or an artefact as the rest of a sentence; "": none."""
    word, kinds = _PARTS[hook]
    try:
        kinds.validate_python(part)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        return f'gives {word} "{part.name}" with {where} = {first["input"]!r}: {first["msg"]}'
    if isinstance(part, Stage) and part.epochs is None and part.max_steps is None:
        return f'gives a stage "{part.name}" without an end: it has neither epochs nor max_steps'
    fields = type(config).model_fields
    named = (part.shared or ()) if isinstance(part, Stage) else part.fields
    if unknown := [field for field in named if field not in fields]:
        return (
            f'gives {word} "{part.name}" that names "{unknown[0]}", which is no field of the '
            f"configuration{suggest(unknown[0], fields)}"
        )
    return ""


def _answer(hook: str, wanted: str, kind: type[T]) -> "cached_property[T]":
    """Attribute of `Declared` with the answer of a hook, the class method of this name.

    wanted: the right answer in words. The attribute raises UserError when the hook raises or gives
    something else.
    """
    adapter = TypeAdapter(kind, config=ConfigDict(strict=True, defer_build=True))

    def asked(self: "Declared") -> T:
        with explained(f"method {self.name}: {hook}() raises "):
            answer = getattr(self.plugin.declaration, hook)(self.config)
        problem = ""
        try:
            adapter.validate_python(answer)
        except ValidationError as error:
            returned = type(answer).__name__
            if error.errors()[0]["loc"]:  # it is the right container of wrong elements
                returned = f"{returned} with {error.errors()[0]['input']!r}"
            problem = f"must return {wanted}, but it returned {returned}"
        if hook in _PARTS and not problem:
            problems = (_part_problem(hook, part, self.config) for part in answer)
            problem = next(filter(None, problems), "")
            names = [part.name for part in answer]
            if len({*names}) < len(names):
                problem = problem or f"gives one name to several of them: {', '.join(names)}"
        if problem:
            raise UserError(f"method {self.name}: {hook}() {problem}")
        right: T = answer
        return right

    return cached_property(asked)


class Declared:
    """The corpora, models, files, stages and artefacts of a method under one configuration.

    The plugin is asked at the first use, and its answer is kept. Any of them raises UserError when
    the configuration cannot be run.
    """

    def __init__(self, plugin: Declaring, config: MethodConfig) -> None:
        """config: of the type that the plugin has."""
        self.plugin, self.config = plugin, config
        self.name, self.source_digest = plugin.name, plugin.source_digest

    @property
    def method(self) -> Any:
        """The class that computes, which is imported now."""
        return self.plugin.method

    corpora = _answer("corpora", "a dict of stream -> corpus", dict[str, str])
    """Stream -> name of its corpus"""
    models = _answer("models", "a list of names", list[str])
    """The pretrained models that the method loads"""
    files = _answer("files", "a list of paths", list[Path])
    """Other files on which the result depends"""
    stages = _answer("stages", "a list of stages", list[InstanceOf[Stage]])
    """The training phases in order; none for a method that only evaluates"""
    artefacts = _answer("artefacts", "a list of artefacts", list[InstanceOf[Artefact]])
    """The arrays that are made once and shared by trials"""

    @property
    def sources(self) -> list[Source]:
        """The sources of the corpora. Raises UserError for an unknown one."""
        return [source(name) for name in self.corpora.values()]

    @property
    def draws_labels(self) -> bool:
        """Whether the result depends on which random subset of the labels is drawn."""
        fraction, _ = label_share(self.config)
        return fraction < 1 and any(corpus.labelled for corpus in self.sources)

    def corpus_files(self, *, download: bool = True) -> list[Path]:
        """The files of the corpora, in their order. Raises UserError when one is missing."""
        return [path for corpus in self.sources for path in corpus.paths(download=download)]

    def check_named(self, model: str) -> None:
        """Raise UserError for a model that is loaded and not declared, so that no key has it."""
        if model not in self.models:
            raise UserError(
                f'method {self.name}: it loads "{model}", which models() does not have, so that no '
                f"key would know it; add it there"
            )

    def model_digest(self, *, download: bool = True) -> str:
        """One digest of all pretrained models. Raises UserError when one is missing."""
        return digest("".join(model_digest(name, download=download) for name in self.models))

    def data_digest(self, more: Sequence[Path] = (), *, download: bool = True) -> str:
        """Digest of the corpora, of the method's other files, and of `more` files."""
        return digest_files([*self.corpus_files(download=download), *self.files, *more])

    @cached_property
    def steps(self) -> int | None:
        """Steps of all stages, as the training loop runs them.

        None when a corpus is not at hand and its size is not known.
        """
        steps = [self.steps_of(stage) for stage in self.stages]
        known = [number for number in steps if number is not None]
        return sum(known) if len(known) == len(steps) else None

    def steps_of(self, stage: Stage) -> int | None:
        """Steps of one stage; None as in `steps`."""
        items = 0 if stage.epochs is None else self.items(next(iter(stage.streams)))
        return None if items is None else stage.steps(items)

    def shared_length(self, stage: Stage) -> list[int | None]:
        """The steps of a stage, where only trials of one length can share it; else nothing.

        Warm-up and decay depend on them, and so do the evaluations of a run of its own.
        """
        how = stage.optimisation
        decays = how.schedule in ("linear", "cosine") and how.decay_steps is None
        warms_up = isinstance(self.config, TrainingConfig) and self.config.warmup_ratio > 0
        return [self.steps_of(stage)] if decays or warms_up or stage.selection.own_run else []

    def evaluation_interval(self, stage: Stage) -> int:
        """Steps between two evaluations on dev in a stage.

        A share of the labels may make the epochs of a stage shorter than the configured interval.
        Ten evaluations fall into them then (diffaug.md, section 7). A stage that `max_steps` ends
        is evaluated as often as with all labels.
        """
        assert isinstance(self.config, TrainingConfig), f"{self.name} trains nothing"
        interval = stage.selection.evaluation_interval or self.config.evaluation_interval
        corpus = self.corpora[next(iter(stage.streams))]
        if self.config.label_fraction == 1 or stage.epochs is None or not source(corpus).labelled:
            return interval
        steps = self.steps_of(replace(stage, max_steps=None))
        return interval if steps is None else max(1, min(interval, steps // 10))

    def check(self) -> None:
        """Ask for everything.

        Raises UserError for a wrong answer, for an unknown corpus, and for a stage whose stream has
        no corpus or whose learning rate is no field.
        """
        _ = self.models, self.files, self.artefacts, self.sources
        self._check_shapes()
        for stage in self.stages:
            where = f'method {self.name}: stage "{stage.name}"'
            self._check_engine(stage, where)
            for stream in stage.streams:
                if stream not in self.corpora:
                    raise UserError(
                        f'{where} reads the stream "{stream}", which corpora() does not have'
                        f"{suggest(stream, self.corpora)}"
                    )
            for field in stage.trains.values():
                if field not in type(self.config).model_fields:
                    raise UserError(
                        f'{where} trains at the rate "{field}", which is no field of the '
                        f"configuration{suggest(field, type(self.config).model_fields)}"
                    )

    def _check_shapes(self) -> None:
        """Raises UserError when a corpus has not the shape that its field asks for."""
        for field, info in type(self.config).model_fields.items():
            accepted = [each for each in info.metadata if isinstance(each, Accepts)]
            name = getattr(self.config, field)
            if not accepted or name not in self.corpora.values():
                continue
            try:
                shape = source(name).shape
            except NotHere:
                continue  # a plan says that it is missing, and goes on
            if shape not in accepted[0].shapes:
                raise UserError(
                    f"method {self.name}: {field} asks for {' or '.join(accepted[0].shapes)}, and "
                    f'the corpus "{name}" has {shape}'
                )

    def _check_engine(self, stage: Stage, where: str) -> None:
        """Raises UserError when a stage cannot be computed as the configuration asks."""
        needs = stage.needs_whole_gradients
        engine = getattr(self.config, "engine", "single")
        if needs and engine in ("deepspeed", "fsdp"):
            raise UserError(
                f"{where} has {needs}, which needs whole gradients, and {engine} shards them; "
                f"choose engine=ddp"
            )
        if stage.moves and getattr(self.config, "shards_weights", False):
            sharded = "fsdp shards them" if engine == "fsdp" else "zero=3 shards them"
            raise UserError(
                f"{where} changes weights by itself ({stage.moves[0]}), for which every worker "
                f"needs them whole, and {sharded}; choose engine=ddp, or deepspeed with zero=2"
            )
        prevents = stage.prevents_capture if getattr(self.config, "cuda_graphs", False) else None
        if prevents:
            raise UserError(
                f"{where} has {prevents}, so no CUDA graph can repeat it; set cuda_graphs=false"
            )

    def items(self, stream: str) -> int | None:
        """Items of a stream; of a labelled corpus, those of the drawn subset.

        None when the corpus is not at hand and its size is not known.
        """
        corpus = self.corpora[stream]
        items = count_items(corpus)
        fraction, subset = label_share(self.config)
        if items is None or fraction == 1 or not source(corpus).labelled:
            return items
        return _subset_size(items, fraction, subset)


@cache  # a plan asks for every trial
def _subset_size(items: int, fraction: float, subset: int) -> int:
    # Drawn as the kit draws it: the size of a subset is random, too.
    return len(label_subset(items, fraction, subset))
