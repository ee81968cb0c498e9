"""The check that a plugin keeps the contract: it runs on the embedded tiny encoder.

This file checks a plugin as a whole, `stage_check` its stages, `evaluation_check` its embeddings.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import torch
import transformers

from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve
from harness.steps import Steps, unheard
from harness.training.seeds import seed_everything
from harness.trials.evaluation_check import evaluation_faults
from harness.trials.faults import Fault, PluginLines, result_or_fault
from harness.trials.stage_check import CHECK_BATCH_SIZE, stage_faults

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
    found: dict[tuple[str, str], list[tuple[str, Fault]]] = {}
    for done, setting in enumerate(tried):
        steps("checking the settings", done, len(tried))
        for fault in _faults(plugin, {**tiny, "setting": setting}, lines):
            found.setdefault(fault.identity, []).append((setting, fault))
    return [_shown(where, tried) for where in found.values()]


def tried_settings(config: type[MethodConfig]) -> tuple[str, ...]:
    """The settings that a method declares; only the default where it leaves them to MethodConfig.

    A configuration class declares them by the annotation of its field `setting`.
    """
    field = config.model_fields["setting"]
    declared = any("setting" in vars(base).get("__annotations__", {}) for base in _own(config))
    return get_args(field.annotation) if declared else (str(field.default),)


def _own(config: type[MethodConfig]) -> Iterator[type]:
    return (base for base in config.__mro__ if base is not MethodConfig)


def _shown(found: list[tuple[str, Fault]], tried: tuple[str, ...]) -> str:
    """A fault on one line; it names the settings that have it where not all of them do."""
    first = found[0][1]
    having = list(dict.fromkeys(setting for setting, _ in found))
    where = "" if len(having) == len(tried) else f"setting {', '.join(having)}: "
    stages = dict.fromkeys(f'"{fault.stage}"' for _, fault in found if fault.stage)
    # What is wrong outside of the stages as well is not a fault of a stage.
    if all(fault.stage for _, fault in found):
        where += f"stage {', '.join(stages)}: "
    return f"{first.place}: {where}{first.sentence}"


def _faults(plugin: Plugin, values: Mapping[str, Any], lines: PluginLines) -> Iterator[Fault]:
    """What is wrong with the plugin under one setting, with the values of TINY."""
    fields = plugin.config_type.model_fields
    try:
        resolve(plugin, {"setting": values["setting"]})
        config = resolve(plugin, _tiny(values, fields))
    except UserError as error:
        sentence = f"the defaults are refused by their own configuration: {error}"
        yield Fault(sentence, lines.of_class(plugin.config_type.__name__))
        return
    seed_everything(0)
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    stages, fault = result_or_fault(lines, "stages()", lambda: kit.declared.stages)
    if fault:
        yield fault
        return
    method, fault = result_or_fault(lines, "__init__", kit.build)
    if fault:
        yield fault
        return
    for stage in stages:
        yield from stage_faults(method, stage, kit, lines)
    yield from evaluation_faults(method, kit, lines)


def _tiny(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a configuration with these fields accepts.

    A field that allows a single value (a `Literal` with one member) keeps this value.
    """
    return {
        key: value
        for key, value in values.items()
        if key in fields and (key == "setting" or len(get_args(fields[key].annotation)) != 1)
    }
