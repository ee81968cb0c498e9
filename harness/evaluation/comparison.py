"""What models are compared by: their scores on the same test pairs, and on resamples of them."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from harness.errors import UserError
from harness.evaluation.bootstrap import RESAMPLES, replicates
from harness.evaluation.correlation import correlation
from harness.evaluation.cosines import pair_cosines
from harness.evaluation.kept_pairs import ScoredPairs
from harness.evaluation.scores import Scores
from harness.evaluation.sts import correlations
from harness.evaluation.suites import Embed, Embeddings, Suite, SuiteCard


def check_pairs(suite: Suite) -> None:
    """Raises UserError for a suite whose score is not the correlation of cosines with gold."""
    if suite.score is not correlations:
        raise UserError(
            f'suite "{suite.name}" has no sentence pairs to resample; models are compared on sts, '
            f"graded or a table of scored pairs"
        )
    for task in suite.tests:
        suite.load(task)


def scored_pairs(suite: Suite, embed: Embed) -> ScoredPairs:
    """The cosines of a model on the test pairs of a suite, with the gold scores.

    Raises TrialFailure where an embedding is not finite.
    """
    tests = {task: suite.load(task) for task in suite.tests}
    # All tests at once, so that a sentence of several tests is embedded once.
    vectors = Embeddings(embed, chain.from_iterable(pairs.texts for pairs in tests.values()))
    return {
        task: np.stack([pair_cosines(vectors(pairs.first), vectors(pairs.second)), pairs.gold])
        for task, pairs in tests.items()
    }


def test_scores(suite: Suite, pairs: ScoredPairs) -> dict[str, float]:
    """Spearman x100 of each test, and their average last.

    Raises TrialFailure where a model has no correlation.
    """
    found = {task: correlation(*each).spearman for task, each in pairs.items()}
    return found | suite.averaged(Scores(found)).metrics


def resampled_scores(
    card: SuiteCard, models: Sequence[ScoredPairs], resamples: int = RESAMPLES
) -> dict[str, np.ndarray | None]:
    """Test -> the scores of the models in resamples of its pairs, (models, resamples).

    The average of the suite comes last. None for a test that some model lacks, and where the models
    have other gold scores or the pairs are too few.
    """
    tests = dict.fromkeys(task for model in models for task in model)
    found = {task: _resampled([model.get(task) for model in models], resamples) for task in tests}
    if card.average is not None:
        of = card.averages.get(card.average, card.tasks(tests))
        known = [found.get(task) for task in of]
        whole = [each for each in known if each is not None]
        found[card.average] = np.mean(whole, axis=0) if len(whole) == len(known) > 0 else None
    return found


def _resampled(models: Sequence[np.ndarray | None], resamples: int) -> np.ndarray | None:
    known = [model for model in models if model is not None]
    if len(known) < len(models) or not all(
        np.array_equal(model[1], known[0][1]) for model in known
    ):
        return None
    # All models in the same resamples: what makes a pair easy for all of them cancels out.
    drawn = replicates([model[0] for model in known], known[0][1], resamples=resamples)
    return None if np.isnan(drawn).any() else drawn
