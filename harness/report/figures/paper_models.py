"""The figures of the papers for which trained models embed STS-B test: DiffCSE 2 and D2CSE 2."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.data.sts_pairs import Pairs
from harness.report.figures.cosine_densities import densities_figure, gold_figure
from harness.report.figures.embedding_plane import plane_figure
from harness.report.figures.embeddings import Drawn
from harness.report.figures.report_figure import ReportFigure
from harness.report.measured.groups import Group
from harness.report.measured.measured_trials import MeasuredTrial
from harness.report.published.matching import ALL_LABELS, Finder, Wanted
from harness.trials.store_folders import store_option

MODELS_ENCODER = "bert-base-uncased"
"""The encoder of these figures in the papers"""


@dataclass(frozen=True)
class ModelFigure:
    """Which models a figure compares."""

    setting: str
    methods: Mapping[str, Mapping[str, Any]]
    """Method -> hyperparameters that its trial has"""
    defaults: Mapping[str, Mapping[str, Any]]
    """Method -> hyperparameters with defaults that its trial has not changed"""


DIFFCSE = {"objective": "detection", "edit": "replace", "edited": "same", "contrastive": True}
"""DiffCSE without its ablations, which are runs of the same plugin"""
MODEL_FIGURES: Mapping[str, ModelFigure] = {
    "diffcse-figure2": ModelFigure(
        "unsup",
        {"simcse": {}, "diffcse": {}},
        {"simcse": {"masked_language_weight": 0.0}, "diffcse": DIFFCSE},
    ),
    "d2cse-figure2": ModelFigure(
        "sup",
        {"dcpcse": {}, "diffcse": {}, "d2cse": {"cls_prompt": True}},
        {"dcpcse": {"prompts": "deep"}, "diffcse": DIFFCSE, "d2cse": {"discriminator": "shared"}},
    ),
}


def chosen_trials(
    name: str, groups: Collection[Group], encoder: str, store: str
) -> tuple[dict[str, str], list[str]]:
    """Label -> key of the trial of each method that a figure of MODEL_FIGURES shows.

    It is the one with the best dev score, of the configuration with the best mean. And sentences
    about what the store lacks, with the command that runs it.
    """
    wanted, finder = MODEL_FIGURES[name], Finder(groups)
    keys: dict[str, str] = {}
    notes = []
    for method, values in wanted.methods.items():
        fixed = tuple(values.items())
        kept = tuple({**ALL_LABELS, **wanted.defaults[method]}.items())
        target = Wanted(method, wanted.setting, encoder, fixed, kept)
        found = finder.find(target)
        if found is None:
            words = ["harness", "sweep", method, wanted.setting, "--encoder", encoder]
            words += [word for key, value in fixed for word in ("--set", f"{key}={value}".lower())]
            command = shlex.join([*words, *store_option(store)])
            notes.append(f"the store has no {target}; run: {command}")
        else:
            keys[method] = best_trial(found.group).key
    return keys, notes


def best_trial(group: Group) -> MeasuredTrial:
    """The trial with the best dev score; of equal ones, the first key."""
    return min(group.trials, key=lambda trial: (-trial.dev.get(group.selects, -1e9), trial.key))


def model_figures(name: str, models: list[Drawn], pairs: Pairs) -> list[ReportFigure]:
    """The pictures of a figure of MODEL_FIGURES from the vectors of its models."""
    if name == "diffcse-figure2":
        return [gold_figure(models, pairs, name)]
    return [
        plane_figure(models, pairs, f"{name}a"),
        densities_figure(models, pairs, f"{name}b"),
    ]
