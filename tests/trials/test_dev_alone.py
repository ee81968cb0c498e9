"""A suite's dev score without its tests."""

from pathlib import Path

import pytest

from harness.evaluation.suites import suite
from harness.trials.evaluate import Measurement, evaluation_key, evaluations
from harness.trials.lookup import model
from harness.trials.store import Store


@pytest.mark.slow
def test_dev_alone_is_a_record_of_its_own(tmp_path: Path) -> None:
    """It embeds and scores dev only, and does not stand for the whole suite."""
    store, whole = Store(tmp_path / "store"), suite("graded")
    asked = model("tiny-bert", store, pooling=None, method=None)
    measurement = Measurement(asked, store)
    [alone] = evaluations(measurement, [whole.dev_alone])
    sentences = len(set(map(str.lower, whole.texts(whole.dev))))
    assert (alone.status, alone.suite, alone.test) == ("finished", "graded", {})
    assert measurement.embedder.sentences == sentences
    [full] = evaluations(Measurement(asked, store), [whole])
    assert full.test
    assert alone.dev == full.dev
    assert alone.key == evaluation_key(asked, whole.dev_alone) != full.key
