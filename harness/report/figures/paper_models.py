"""The figures of the papers for which trained models embed STS-B test: DiffCSE 2 and D2CSE 2."""

from collections.abc import Iterable

from harness import PROTOCOL
from harness.data.sts_pairs import Pairs
from harness.report.figures.cosine_densities import densities_figure, gold_figure
from harness.report.figures.embedding_plane import plane_figure
from harness.report.figures.embeddings import Drawn
from harness.report.figures.report_figure import ReportFigure
from harness.report.groups import Group
from harness.report.matching import Commands
from harness.report.measured_trials import MeasuredTrial
from harness.report.paper_cells import Comparer

MODEL_FIGURES = ("diffcse-figure2", "d2cse-figure2")
"""Their models are the rows of results/reported/systems.yaml"""


def chosen_trials(
    name: str, comparer: Comparer, commands: Commands
) -> tuple[dict[str, str], list[str]]:
    """Method -> key of its trial that a figure of MODEL_FIGURES shows.

    It is the one with the best dev score, of the configuration with the best mean. And sentences
    about what the store lacks, with the command that runs it.
    """
    found = comparer.figure(name.replace("-", "."))
    keys = {wanted.method: best_trial(each.group).key for wanted, each in found if each}
    notes = [
        f"the store has no {wanted}; run: {commands.sweep(wanted)}"
        for wanted, each in found
        if each is None
    ]
    return keys, [*notes, *drawn_all_the_same(each.group for _, each in found if each)]


def drawn_all_the_same(groups: Iterable[Group]) -> list[str]:
    """A sentence about the trials of another protocol that a figure shows, if there are any."""
    numbers = sorted({str(each.provenance["protocol"]) for each in groups if not each.current})
    if not numbers:
        return []
    return [f"shown although trained or measured by protocol {', '.join(numbers)}, not {PROTOCOL}"]


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
