"""A user's own configuration of DeepSpeed: what may be set, and where it goes."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.plugin.engine_config import SPEED, settings_in
from harness.trials.trial import Trial, arrived, describe, key, portable
from tests.ranks.test_equal import ENGINES

OWN = {"zero_optimization": {"overlap_comm": True, "reduce_bucket_size": 5e8}}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A relative path of the file of OWN."""
    monkeypatch.chdir(tmp_path)
    path = Path("own.json")
    path.write_text(json.dumps(OWN), encoding="utf-8")
    return path


def simcse(**values: Any) -> Trial:
    given = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
    return Trial("simcse", {**given, **values}, 0)


def test_the_content_goes_to_workers_and_into_the_record(file: Path) -> None:
    """Not the path: another machine does not have the file, which may also change."""
    sharded = {"engine": "deepspeed", "workers": 2}
    trial = simcse(**sharded, deepspeed=str(file))
    sent = json.dumps(portable(trial))
    file.unlink()
    assert describe(arrived(json.loads(sent))).engine["deepspeed"] == OWN
    assert key(trial) == key(simcse(**sharded)) == key(simcse())


def test_it_stands_beside_our_own_settings(file: Path) -> None:
    from harness.training.engines import settings

    config = simcse(engine="deepspeed", offload_optimiser=True, deepspeed=str(file)).config
    found = settings(config)  # type: ignore[arg-type]
    assert found["gradient_clipping"] == 1
    assert found["zero_optimization"] == {
        "stage": 2,
        "offload_optimizer": {"device": "cpu"},
        "overlap_comm": True,
        "reduce_bucket_size": 500_000_000,
    }


def test_every_entry_that_may_be_set_is_compared_with_one_process() -> None:
    """The engines of test_equal.py that have entries of their own have all of them."""

    def names(entries: dict[str, Any], part: str = "") -> set[str]:
        own = [
            names(value, f"{part}{name}.") if isinstance(value, dict) else {f"{part}{name}"}
            for name, value in entries.items()
        ]
        return set().union(*own)

    assert set().union(*(names(each.get("deepspeed", {})) for each in ENGINES.values())) == {*SPEED}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"zero_optimization": {"stage": 3}}, "zero_optimization.stage in {} is refused: the field "
         "zero decides it; leave it out"),
        ({"bf16": {"enabled": True}}, "bf16.enabled in {} is refused: the field precision decides"),
        ({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}},
         "zero_optimization.offload_optimizer.device in {} is refused: the field offload_optim"),
        ({"train_batch_size": "auto"}, "train_batch_size in {} is refused: the field batch_size"),
        ({"communication_data_type": "fp16"}, "communication_data_type in {} is refused: it would "
         "round what workers send one another; leave it out"),
        ({"zero_optimization": {"overlap_com": True}}, 'zero_optimization.overlap_com in {} is '
         'refused: only entries that change no result may be set; did you mean "zero_optimization.'
         'overlap_comm"?'),
        ({"zero_optimization": {"reduce_bucket_size": "auto"}}, "zero_optimization.reduce_bucket_"
         'size in {} must be a whole number from 1, not "auto"'),
        ({"zero_optimization": {"reduce_bucket_size": 0}}, "a whole number from 1, not 0"),
        ({"zero_optimization": {"reduce_bucket_size": True}}, "a whole number from 1, not true"),
        ({"zero_optimization": {"overlap_comm": 1}}, "must be true or false, not 1"),
    ],
)  # fmt: skip
def test_other_entries_are_refused(file: Path, entries: dict[str, Any], sentence: str) -> None:
    file.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(UserError) as error:
        settings_in(str(file))
    assert sentence.format(file) in str(error.value)
    with pytest.raises(UserError) as error:
        settings_in(entries)
    assert sentence.format("deepspeed") in str(error.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "deepspeed: own.json is not JSON (Expecting"),
        ("[]", "deepspeed: own.json must hold entries in braces"),
        (None, "deepspeed: there is no such file: own.json"),
    ],
)
def test_a_file_that_holds_no_entries(file: Path, content: str | None, sentence: str) -> None:
    file.unlink()
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as error:
        simcse(engine="deepspeed", workers=2, deepspeed=str(file))
    assert str(error.value).startswith(sentence)


def test_another_engine_reads_none(file: Path) -> None:
    with pytest.raises(UserError, match=r"deepspeed needs the engine deepspeed; add engine="):
        simcse(engine="ddp", workers=2, deepspeed=str(file))
