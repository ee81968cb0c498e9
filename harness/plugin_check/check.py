"""The check that a plugin keeps the contract: it runs on the embedded tiny encoder.

This file checks a plugin as a whole and its embeddings, `stage_check` its stages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
import transformers
from torch import Tensor

from harness.data.batching import TextBatch, pad
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.tokens import piece_ids
from harness.encoders.backbone import Encoder
from harness.errors import UserError, counted, suggest
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.config import MethodConfig, Setting
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve
from harness.plugin_check.faults import Fault, FaultFound, PluginLines, attempted, until_found
from harness.plugin_check.stage_check import CHECK_BATCH_SIZE, stage_faults
from harness.steps import Steps, unheard
from harness.training.seeds import seed_everything

TINY = {
    "encoder": "tiny-bert",
    "suite": "graded",
    "sentences": "graded-sentences",
    "triplets": "graded-triplets",
    "pairs": "graded-pairs",
    "scored_pairs": "graded-scored-pairs",
    "corpus": "graded-sentences",
    "vectors": EMBEDDED / "datasets" / GRADED / "vectors.txt",
    "batch_size": CHECK_BATCH_SIZE,
}
"""Hyperparameter -> a value with which a plugin runs without a download"""

CHECKED_TEXTS = [
    "a short one",
    "the old man slowly reads a long book about the sea in the garden",
    "she sings",
]
LONG_TEXT = "the old man reads " * 300
"""Longer than the positions of most encoders"""
VECTOR_TOLERANCE = 1e-4
"""Difference of a value; other batches are other matrix products, which round differently"""


def problems(name: str, encoder: str | None = None, steps: Steps = unheard) -> list[str]:
    """`FILE:LINE: sentence` for each thing that is wrong with the plugin called `name`.

    The list is empty for a plugin that keeps the contract. encoder: in the place of the embedded
    one. steps: hears how many settings are checked. Raises UserError when there is no such plugin
    or encoder.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    plugin = registry.load(name)
    lines = PluginLines(name, plugin)
    tried = tried_settings(plugin.config_type)
    tiny = TINY | ({"encoder": encoder} if encoder else {})
    faults: dict[tuple[str, str], list[tuple[str, Fault]]] = {}
    for done, setting in enumerate(tried):
        steps("checking the settings", done, len(tried))
        for fault in until_found(_faults(plugin, {**tiny, "setting": setting}, lines)):
            faults.setdefault(fault.identity, []).append((setting, fault))
    return [_shown(where, tried) for where in faults.values()]


def tried_settings(config: type[MethodConfig]) -> tuple[str, ...]:
    """The settings that a method declares; only the default where it leaves them to MethodConfig.

    A configuration class declares them by the annotation of its field `setting`.
    """
    field = config.model_fields["setting"]
    classes = config.__mro__[: config.__mro__.index(MethodConfig)]
    declared = any("setting" in base.__annotations__ for base in classes)
    return get_args(field.annotation) if declared else (str(field.default),)


def _shown(occurrences: list[tuple[str, Fault]], tried: tuple[str, ...]) -> str:
    """A fault on one line; it names the settings that have it where not all of them do."""
    first = occurrences[0][1]
    having = list(dict.fromkeys(setting for setting, _ in occurrences))
    where = "" if len(having) == len(tried) else f"setting {', '.join(having)}: "
    stages = dict.fromkeys(f'"{fault.stage}"' for _, fault in occurrences if fault.stage)
    # What is wrong outside of the stages as well is not a fault of a stage.
    if all(fault.stage for _, fault in occurrences):
        where += f"stage {', '.join(stages)}: "
    return f"{first.place}: {where}{first.sentence}"


def _faults(plugin: Plugin, values: Mapping[str, Any], lines: PluginLines) -> Iterator[Fault]:
    """The faults of a plugin under one setting, with the values of TINY."""
    fields = plugin.config_type.model_fields
    try:
        resolve(plugin, {"setting": values["setting"]})
        config = resolve(plugin, _tiny(values, fields))
    except UserError as error:
        sentence = f"the defaults are refused by their own configuration: {error}"
        yield Fault(sentence, lines.of_class(plugin.config_type.__name__))
        return
    yield from _named_faults(plugin.config_type, lines)
    others = attempted(lines, "models()", lambda: _other_models(plugin, config))
    config = resolve(plugin, _tiny(values, fields) | others)
    seed_everything(0)
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    stages = attempted(lines, "stages()", lambda: kit.declared.stages)
    method = attempted(lines, "__init__", kit.build)
    for stage in stages:
        for fault in until_found(stage_faults(method, stage, kit, lines)):
            yield replace(fault, stage=stage.name)
    _check_evaluation(method, kit, lines)


def _named_faults(config: type[MethodConfig], lines: PluginLines) -> Iterator[Fault]:
    """The names in `published` and `released` of a configuration that nothing looks up."""
    line = lines.of_class(config.__name__)
    for key in config.published:
        if not (isinstance(key, tuple) and len(key) == 2 and key[0] in get_args(Setting)):
            like = '(setting, encoder), such as ("unsup", "*")'
            yield Fault(f"published has the key {key!r}; its keys are {like}", line)
    for name in sorted(config.released - config.model_fields.keys()):
        near = suggest(name, config.model_fields)
        yield Fault(f'released names "{name}", which is no field{near}', line)


def _tiny(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a configuration with these fields accepts.

    A field that allows a single value (a `Literal` with one member) keeps this value.
    """
    return {
        key: value
        for key, value in values.items()
        if key in fields and (key == "setting" or len(get_args(fields[key].annotation)) != 1)
    }


def _other_models(plugin: Plugin, config: MethodConfig) -> dict[str, Any]:
    """Field -> the encoder, for fields that name further models: nothing is downloaded."""
    others = [name for name in plugin.declare(config).models if name != config.encoder]
    return {name: config.encoder for name, value in config if value in others}


def _check_evaluation(method: Method[Any], kit: Kit, lines: PluginLines) -> None:
    """Raises FaultFound for a fault of the embeddings, at test time or on dev."""
    method.eval()
    _check_longest(method, lines)
    with torch.inference_mode():
        for name in ("embed", "embed_dev"):
            if problem := _problem(name, method, lines):
                raise FaultFound(Fault(problem, lines.of_function(name)))
    embedder = Embedder(method, kit)
    for dev in (False, True):
        what = f"the evaluation on {'dev' if dev else 'test'}"
        call = partial(embedder, [*CHECKED_TEXTS, LONG_TEXT], dev=dev)
        attempted(lines, what, call)


def _check_longest(method: Method[Any], lines: PluginLines) -> None:
    """Evaluation asks for `longest`, which looks at `self.encoder` unless a plugin writes it."""
    inherits = type(method).longest is Method.longest
    if inherits and not isinstance(getattr(method, "encoder", None), Encoder):
        kept = [name for name, part in method.named_modules() if isinstance(part, Encoder)]
        found = f"this method keeps its encoder as self.{kept[0]}" if kept else "it has none"
        sentence = f"evaluation reads self.encoder, but {found}; rename it, or write `longest`"
        place = lines.of_assignment(kept[0]) if kept else lines.of_class("Method")
        raise FaultFound(Fault(sentence, place))
    attempted(lines, "longest", lambda: method.longest)


def _problem(name: str, method: Method[Any], lines: PluginLines) -> str:
    """The fault of the vectors that the function `name` of a plugin gives for texts; "": none."""
    embed, name = getattr(method, name), f"{name}()"

    def vectors(texts: list[str]) -> Any:
        rows = [np.asarray(pieces, np.int64) for pieces in piece_ids(method.tokenizer, texts)]
        ids, mask = pad(rows, method.evaluation_template, method.tokenizer.pad_token_id)
        batch = TextBatch(ids, mask, torch.arange(len(texts)))
        return attempted(lines, name, partial(embed, batch))

    together, again = vectors(CHECKED_TEXTS), vectors(CHECKED_TEXTS)
    alone = [vectors([text]) for text in CHECKED_TEXTS]
    for count, tensor in ((len(CHECKED_TEXTS), together), *((1, each) for each in alone)):
        if not isinstance(tensor, Tensor) or tensor.dim() != 2 or len(tensor) != count:
            sentences = counted(count, "sentence")
            returned = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            return f"{name} must return (rows, hidden); for {sentences} it returned {returned}"
    if not together.isfinite().all():
        return f"{name} returns values that are not finite"
    if not again.equal(together):
        return f"{name} is random: the same batch gets other vectors the second time"
    if (torch.cat(alone) - together).abs().max() > VECTOR_TOLERANCE:
        return (
            f"{name} depends on the batch: a sentence gets different vectors when it is alone and "
            f"when it is beside longer ones"
        )
    return ""
