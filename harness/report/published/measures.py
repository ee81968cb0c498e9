"""What the columns of a published table show: scores, quantities of a trial, or values to read."""

from enum import Enum

from harness.errors import UserError
from harness.evaluation.catalogue import Metric, metric_named, metric_under
from harness.report.measured.quantities import QUANTITIES, Quantity
from harness.report.published.reported import ReportedTable
from harness.report.published.systems import ColumnRun


class Special(Enum):
    """A column that no record of the store has."""

    GIVEN = "given"
    """What the row is about, such as a weight"""
    COSINE = "query-cosine"
    """The cosine of the table's query and the sentence in the heading"""
    SENTENCE = "ranked sentence"
    """The sentence that a model ranks at this place for the query of the heading"""
    HYPERPARAMETER = "hyperparameter"
    """The value of a field of the method's Config"""


_OF_KIND = {"examples": Special.SENTENCE, "hyperparameters": Special.HYPERPARAMETER}
Measure = Metric | Quantity | Special
"""What a column shows"""


def measure_of(table: ReportedTable, index: int, said: ColumnRun) -> Measure:
    """What a column shows: what is `said` of it, or else what its heading names.

    Raises UserError for a name that is neither a metric nor a quantity.
    """
    if table.kind in _OF_KIND:
        return _OF_KIND[table.kind]
    if said.metric is None:
        return metric_under(str(table.columns[index]), table.columns)
    if said.metric in QUANTITIES:
        return QUANTITIES[said.metric]
    if said.metric in {each.value for each in Special}:
        return Special(said.metric)
    metric = metric_named(said.metric)
    if metric is None:
        raise UserError(
            f'results/reported/systems.yaml: there is no metric or quantity "{said.metric}"'
        )
    return metric
