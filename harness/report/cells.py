"""The cells of a table: our score, the number that a paper prints, and their difference."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.evaluation.catalogue import DISPLAY, Metric, SuiteCard
from harness.report.groups import Group, Score
from harness.report.matching import Wanted
from harness.report.measured_trials import MeasuredTrial
from harness.report.published import ReportedRow, Value
from harness.report.quantities import TEXTS, Measure, Quantity, Special
from harness.report.significance import prediction

FOREIGN = "†"
"""The mark at scores of another protocol"""
LEAK = "‡"
"""The mark at scores of tests that stand in the training data"""
LEAKED = 0.01
"""The share of a test from which on its score is marked.

It lies between what NLI has of the STS tests (no pair, and up to 1.3 % of the sentences) and what
STS-B train has of those that STS-B was drawn from (17 to 50 % of the pairs)."""
BEST = "★"
"""The sign of what is bold, where nothing can be printed in bold"""


class Bold(str):
    """Text that is printed in bold."""

    __slots__ = ()


@dataclass(frozen=True)
class Published:
    """A value that a paper prints, and the trials that would reproduce it."""

    heading: str
    """The heading of its section"""
    row: ReportedRow
    column: str
    value: Value
    printed: str
    """The text in the paper; "" for a value that it left out"""
    std: float | None
    source: str
    measure: Measure
    unlike: str
    """In what it is of another system than ours; "": it is of the same"""
    wanted: Wanted | None
    """The trials that would reproduce it; None when it is only quoted"""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: our score, and beside a paper the published number."""

    ours: Score | None = None
    """Mean, std, n and trials; None: the store has none"""
    decimals: int = 2
    metric: Metric | None = None
    """The score of a suite that the column shows; None: it shows something else"""
    group: Group | None = None
    """The comparable trials that were chosen; the suite need not have measured them"""
    candidates: int = 0
    """The number of groups among which one was chosen"""
    published: Published | None = None
    citation: str = ""
    """The mark at the published number that cites its source, such as `[2]`"""
    expected: bool = False
    """Whether trials of ours can fill it; else the published number is only quoted"""
    best: bool = False
    """Whether it is the best of its column, or not significantly worse"""

    @property
    def wanted(self) -> Wanted | None:
        """The trials that would reproduce the published value; None: there are none."""
        return self.published.wanted if self.published else None

    @property
    def number(self) -> float | None:
        """The published value as a number that ours can stand beside; None: it is none."""
        published = self.published
        if published is None or published.measure in TEXTS or isinstance(published.value, str):
            return None
        return None if published.value is None else float(published.value)

    @property
    def alone(self) -> bool:
        """Whether ours stands in a row that has no published numbers."""
        return self.published is not None and not self.published.row.values

    @property
    def asks(self) -> bool:
        """Whether a score of ours has its place here: beside a number, or alone."""
        return self.number is not None or self.alone

    @property
    def n(self) -> str | None:
        """The number of our trials behind it, as text; None where the column needs none."""
        measure = self.published.measure if self.published else None
        if measure in TEXTS:
            return None
        if self.group is None or not (self.metric or self.ours):
            return "0"
        if measure is Special.COSINE:
            return "1"
        trials = self.group.measured(self.metric.suite) if self.metric else self.group
        return trials.n if trials else "0"

    @property
    def unmeasured(self) -> list[MeasuredTrial]:
        """Our trials that do not have a score of the metric yet."""
        if self.group is None or self.metric is None:
            return []
        return [trial for trial in self.group.trials if not trial.has(self.metric)]

    @property
    def is_foreign(self) -> bool:
        """Whether our trials follow another protocol, so that a difference says nothing."""
        return self.group is not None and not self.group.current

    @property
    def why_not(self) -> tuple[str, str] | None:
        """Why ours is not subtracted from the published number, in a word and in a sentence.

        None: it is.
        """
        wanted, measure = self.wanted, self.published.measure if self.published else None
        if self.published and self.published.unlike:
            return "another system", self.published.unlike
        if self.group and self.is_foreign:
            protocol = self.group.provenance["protocol"]
            return "another protocol", f"ours was measured by protocol {protocol}"
        if wanted and wanted.published_encoder:
            other = f"{wanted.encoder} in the place of {wanted.published_encoder}"
            return f"on {wanted.encoder}", f"ours is on {other}"
        if isinstance(measure, Quantity) and not measure.compared:
            return "counted differently", "the two are counted differently"
        return None

    @property
    def difference(self) -> float | None:
        """Our mean minus the published number, where both are there and can be compared."""
        number = self.number
        if self.ours is None or number is None or self.why_not:
            return None
        return self.ours.mean - number

    @property
    def agrees(self) -> bool | None:
        """Whether the published number lies within the spread of our seeds; None: unknown."""
        difference, number = self.difference, self.number
        if difference is None or number is None or self.ours is None or self.published is None:
            return None
        if not self.ours.trained:  # the same every time, so only rounding may differ
            return round(difference, len(self.published.printed.partition(".")[2])) == 0
        predicted = prediction(self.ours)
        return predicted.agrees(number) if predicted else None

    @property
    def leaks(self) -> list[str]:
        """The tests behind our score of which the training data have much; of an average, all.

        Each is told with its pairs whose two sentences stand together in one training item, or,
        where it has no pairs, with its distinct sentences that the training data have, but for
        case, punctuation and spaces.
        """
        if not (self.ours and self.ours.trials and self.metric) or self.metric.split == "dev":
            return []
        # The trials of a cell differ in seed and label subset, and have the same corpora.
        scores = self.ours.trials[0].suites.get((self.metric.suite, self.metric.data))
        if scores is None:
            return []
        counts, leaks = scores.contamination, []
        for task in dict.fromkeys(name.partition("/")[0] for name in counts):
            if self.metric.name in (task, scores.card.average):
                pairs = counts[f"{task}/pairs"]
                names = ("pairs_together", "pairs") if pairs else ("normalised", "sentences")
                in_training, whole = (int(counts[f"{task}/{name}"]) for name in names)
                if in_training >= LEAKED * whole > 0:
                    leaks.append(f"{DISPLAY.get(task, task)} {in_training} of {whole}")
        return leaks

    @property
    def text(self) -> str:
        """Our score as text: `mean±std` and its marks; "" where there is none."""
        if self.ours is None:
            return ""
        marks = FOREIGN * self.is_foreign + LEAK * bool(self.leaks)
        shown = score_text(self.ours, self.decimals) + marks
        return Bold(shown) if self.best else shown

    @property
    def published_text(self) -> str:
        """The published value as text, with its source; "" where there is none."""
        if self.published is None:
            return ""
        std = "" if self.published.std is None else f"±{self.published.std}"
        printed = self.published.printed
        return f"{printed}{std}{f' {self.citation}' if printed and self.citation else ''}"

    @property
    def difference_text(self) -> str:
        """The difference as text: `≈` where the two agree, and `≠` where they do not."""
        sign = {True: "≈", False: "≠", None: ""}[self.agrees]
        return difference_text(self.difference, self.decimals) + sign


def value_text(value: float | bool | str) -> str:
    """A published value or one of our defaults as text: `yes`, `0.001`, `2`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else value


def score_text(score: Score | None, decimals: int = 2) -> str:
    """`mean±std`; the mean alone for one trial, and "" for no trial."""
    if score is None:
        return ""
    spread = "" if score.std is None else f"±{score.std:.{decimals}f}"
    return f"{score.mean:.{decimals}f}{spread}"


def difference_text(value: float | None, decimals: int = 2) -> str:
    """A difference with its sign, and never `-0.00`; "" where there is none."""
    # Adding 0.0 turns -0.0 into 0.0.
    return "" if value is None else f"{round(value, decimals) + 0.0:+.{decimals}f}"


def p_text(value: float) -> str:
    """A p-value as text; a small one is never 0."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def decimals_of(card: SuiteCard, means: Iterable[float]) -> int:
    """Digits after the point of a test metric: those of its suite, or as its numbers need."""
    if card.decimals is not None:
        return card.decimals
    return 2 if any(abs(mean) > 1 for mean in means) else 4  # NaN has no digits


def percent_text(fraction: float | None) -> str:
    """A fraction as text, for example `1 %`; "" where there is none."""
    return "" if fraction is None else f"{100 * fraction:g} %"
