"""The hyperparameter `transfer_classifier`: which suite measures the transfer tasks."""

from typing import Any

import pytest

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.config import TRANSFER_SUITES, MethodConfig
from harness.plugin.resolution import resolve


def configured(**values: Any) -> MethodConfig:
    """The configuration of SimCSE with these values."""
    return resolve(registry.load("simcse"), values)


def test_every_classifier_has_a_suite() -> None:
    for name in TRANSFER_SUITES.values():
        assert suite(name).name == name
        assert suite(name).tests == ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
    assert {suite(name).dev for name in TRANSFER_SUITES.values()} == {
        "transfer-dev",
        "transfer-senteval-dev",
    }


def test_the_classifier_chooses_the_suite_and_is_recorded() -> None:
    found = configured(suite="transfer", transfer_classifier="senteval")
    assert (found.suite, found.transfer_classifier) == ("transfer-senteval", "senteval")
    # One suite has one configuration, and so one key, however it is named.
    assert found == configured(suite="transfer-senteval")
    assert found == resolve(registry.load("simcse"), found.model_dump(mode="json"))
    plain = configured(suite="transfer")
    assert (plain.suite, plain.transfer_classifier) == ("transfer", "minimum")
    assert plain == configured(suite="transfer-senteval", transfer_classifier="minimum")


def test_it_changes_nothing_under_another_suite() -> None:
    assert configured(transfer_classifier="senteval") == configured()


@pytest.mark.parametrize("measured", ["sts", "transfer", "transfer-senteval"])
@pytest.mark.parametrize("value", ["adam", 3, ["senteval"]])
def test_a_wrong_classifier_is_refused(measured: str, value: object) -> None:
    with pytest.raises(UserError, match=r"transfer_classifier = .*'minimum' or 'senteval'"):
        configured(suite=measured, transfer_classifier=value)
