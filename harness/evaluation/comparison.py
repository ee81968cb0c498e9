"""The comparison of two models on the same sentence pairs, test by test and on average."""

from itertools import chain

import numpy as np

from harness.data.sts_pairs import Pairs
from harness.errors import UserError
from harness.evaluation.bootstrap import PairedComparison, paired_comparison, replicates
from harness.evaluation.correlation import correlation
from harness.evaluation.cosines import pair_cosines
from harness.evaluation.sts import correlations
from harness.evaluation.suites import Embed, Embeddings, Suite
from harness.steps import Steps, unheard


def pairs_of_tests(suite: Suite) -> dict[str, Pairs]:
    """Test -> its sentence pairs.

    Raises UserError for a suite whose score is not the correlation of cosines with gold scores.
    """
    if suite.score is not correlations:
        raise UserError(
            f'suite "{suite.name}" has no sentence pairs to resample; models are compared on sts, '
            f"graded or a table of scored pairs"
        )
    return {task: suite.load(task) for task in suite.tests}


def differences(
    suite: Suite, first: Embed, second: Embed, steps: Steps = unheard
) -> dict[str, tuple[float, float, PairedComparison]]:
    """Test -> Spearman x100 of the first and of the second model, and their paired comparison.

    The average of the suite comes last. steps: hears how many tests are compared. Raises UserError
    for a suite without gold scores, and TrialFailure where a model has no correlation.
    """
    tests = pairs_of_tests(suite)
    texts = list(chain.from_iterable(pairs.texts for pairs in tests.values()))
    # All tests at once, so that a sentence of several tests is embedded once.
    vectors = [Embeddings(embed, texts) for embed in (first, second)]
    found: dict[str, tuple[float, float, PairedComparison]] = {}
    drawn = []
    for done, (task, pairs) in enumerate(tests.items()):
        steps("resampling the pairs of the tests", done, len(tests))
        cosines = [pair_cosines(each(pairs.first), each(pairs.second)) for each in vectors]
        one, two = (correlation(each, pairs.gold).spearman for each in cosines)
        # Both models in the same resamples: what makes a pair easy for both cancels out.
        drawn.append(np.subtract(*replicates(cosines, pairs.gold)))
        found[task] = one, two, paired_comparison(one - two, drawn[-1])
    # The average is that of rounded scores, as in the papers.
    if suite.card.average:
        one = float(np.mean([round(score, 2) for score, _, _ in found.values()]))
        two = float(np.mean([round(score, 2) for _, score, _ in found.values()]))
        found[suite.card.average] = one, two, paired_comparison(one - two, np.mean(drawn, axis=0))
    return found
