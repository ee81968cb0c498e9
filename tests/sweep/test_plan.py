"""A plan sums what its real trials do, gives a range where scores decide, and prices any device."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.sweeps import devices
from harness.sweeps.operations import parts_of_trial
from harness.sweeps.plan import Plan
from harness.trials.trial import Trial
from tests.downloads import FIRST, downloaded_model
from tests.kits import hub_client

HEAD = """
suite: graded
select: {metric: graded-dev}
search: {seeds: [1]}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
methods:
"""
SIMCSE = "  simcse:\n    set: {sentences: graded-sentences}\n"


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """plan(methods, ...): the plan of a space with these lines about methods."""

    def make(methods: str, setting: str = "unsup", **options: Any) -> Plan:
        path = tmp_path / "space.yaml"
        path.write_text(f"setting: {setting}{HEAD}{methods}", encoding="utf-8")
        return harness.plan(path, store=tmp_path / "store", **options)

    return make


SENTENCES = 6000
"""Lines of the embedded corpus"""


def test_steps_are_those_of_every_configuration(plan: Any) -> None:
    made = plan(SIMCSE + "    rounds:\n      - batch_size: [16, 64]\n        epochs: [1, 2]\n")
    steps = [-(-SENTENCES // size) * epochs for size in (16, 64) for epochs in (1, 2)]
    searched, final = made.lines
    assert searched.whole.steps == devices.Bounds(sum(steps), sum(steps))
    assert (searched.each.steps.least, searched.each.steps.most) == (min(steps), max(steps))
    # Which of them gets the final seeds is not known yet.
    assert (final.whole.steps.least, final.whole.steps.most) == (2 * min(steps), 2 * max(steps))
    assert not final.decided
    assert made.whole.steps == searched.whole.steps + final.whole.steps


@pytest.mark.slow
def test_a_plan_with_rounds_has_what_runs_between_its_bounds(plan: Any, tmp_path: Path) -> None:
    """The second round starts with the usual temperature, which the first one has tried."""
    values = "sentences: graded-sentences, max_steps: 3, batch_size: 8"
    head = f"  simcse:\n    set: {{{values}}}\n    rounds:\n"
    line = plan(
        head + "      - temperature: [0.1, 0.2, 0.4]\n"
        "      - temperature: {between: best_two, step: 0.05}\n"
    ).lines[1]
    assert line.trials is None
    assert line.at_most == 7, "0.1 to 0.4"
    # 0.1, 0.15 and 0.2, of which the first round has tried two.
    assert (line.to_run, line.whole.steps.least, line.whole.steps.most) == (1, 3 * 1, 3 * 7)
    methods = (
        f"{head}      - learning_rate: [0.001, 0.002]\n      - temperature: [0.05, 0.1]\n"
        "      - temperature: {between: best_two, step: 0.025}\n"
    )
    before = plan(methods)
    assert before.trials_text == "6 to 9 trials to run"
    harness.sweep(tmp_path / "space.yaml", store=tmp_path / "store", local=True)
    ran = len(harness.load(tmp_path / "store"))
    assert ran == 2 + 1 + 1 + 2
    assert before.whole.steps.least <= 3 * ran <= before.whole.steps.most
    assert plan(methods).trials_text == "0 trials to run"


def test_a_sampler_spans_its_ranges_and_its_hours(plan: Any) -> None:
    made = plan(
        f"{SIMCSE}    ranges: {{batch_size: {{low: 10, high: 100}}}}\n"
        "    sampler: {name: random, configurations: 5}\n"
    )
    steps = made.lines[0].each.steps
    assert (steps.least, steps.most) == (SENTENCES / 100, SENTENCES / 10)
    assert made.lines[0].whole.steps.most == 5 * steps.most
    timed = f"{SIMCSE}    ranges: {{temperature: {{low: 0.01, high: 0.1}}}}\n"
    made = plan(timed + "    sampler: {hours: 3}\n")
    sampled, final = made.lines
    assert (sampled.trials, sampled.at_most) == (None, None)
    assert made.trials_text == "2 trials to run and those for which the hours suffice"
    assert made.whole.seconds == final.whole.seconds + devices.Bounds(3 * 3600, 3 * 3600)


def test_a_first_stage_is_paid_once(plan: Any) -> None:
    """Trials that differ in its length run the longest one, as the sweep does."""
    made = plan(
        "  diffaug:\n    set: {sentences: graded-sentences, triplets: graded-triplets, "
        "max_steps: 4}\n    grid: {stage1_steps: [10, 20, 30]}\n",
        "semisup",
    )
    assert made.lines[0].whole.steps.most == 30 + 3 * 4
    assert made.lines[0].each.steps.most == 34


def test_vectors_of_a_frozen_encoder_are_paid_once(plan: Any) -> None:
    methods = "  clsr:\n    set: {pairs: graded-triplets, max_steps: 4}\n"
    [one], [two] = (plan(methods, "sup", seeds=seeds).lines for seeds in ([0], [0, 1]))
    assert one.whole.seconds.most == pytest.approx(one.each.seconds.most)
    assert one.whole.seconds.most < two.whole.seconds.most < 2 * one.whole.seconds.most


def test_a_frozen_encoder_reads_dev_once() -> None:
    """An evaluation along CLSR's training costs its two layers, and not the encoder."""
    own = {"encoder": "tiny-bert", "suite": "graded", "pairs": "graded-triplets", "batch_size": 50}

    def operations(interval: int) -> float:
        values = {**own, "max_steps": 100, "evaluation_interval": interval}
        [part] = [part for part in parts_of_trial(Trial("clsr", values, 0)) or () if part.steps]
        return part.operations

    network = 2 * (128 * 768 + 768 * 768)
    assert operations(10) - operations(100) == pytest.approx(9 * 800 * network)


def test_any_device_is_priced_and_the_load_does_not_matter(plan: Any) -> None:
    def of(device: str, **options: int) -> Plan:
        made: Plan = plan(SIMCSE, device=device, encoders=["bert-base-uncased"], **options)
        return made

    seconds = {device: of(device).whole.seconds for device in ("h100", "t4", "cpu")}
    assert seconds["h100"].middle < seconds["t4"].middle < seconds["cpu"].middle
    assert of("cpu").whole.seconds == seconds["cpu"]
    eight = of("h100", gpus=8)
    assert (eight.slots, eight.whole.seconds) == (8, seconds["h100"])
    assert eight.other.name == "cpu", "this machine stands beside it"


@pytest.fixture
def asked() -> Iterator[list[object]]:
    """Questions of this process to a network during the test; there is none."""
    questions: list[object] = []
    during = [True]

    def hear(event: str, arguments: object) -> None:
        if during and event in ("socket.getaddrinfo", "socket.connect"):
            questions.append(arguments)
            raise OSError("there is no network")

    sys.addaudithook(hear)  # which stays in this process
    yield questions
    during.clear()


def test_a_plan_asks_no_hub(
    asked: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing files are named, and a model that was downloaded is as it is; nobody waits."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    hub_client(monkeypatch, HF_HUB_OFFLINE=False, HF_HUB_CACHE=str(tmp_path / "hub"))
    made = harness.plan("unsup", "simcse", store=tmp_path / "store")
    assert any("senteval.tar" in missing for missing in made.missing)
    downloaded_model(tmp_path / "hub", "some/tiny", FIRST, "main", scale=1)
    made = harness.plan("quickstart", "simcse", encoders="some/tiny", store=tmp_path / "store")
    assert not made.missing
    assert not asked


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "exact", "rounded"),
    [
        ("AuthenticAMD", 26, "avx2 avx512f avx512_bf16", 128e9, 256e9),  # Zen 5
        ("AuthenticAMD", 25, "avx2 avx512f avx512_bf16", 64e9, 128e9),  # Zen 4: in two halves
        ("AuthenticAMD", 25, "avx2", 64e9, 64e9),  # Zen 3
        ("GenuineIntel", 6, "avx2 avx512f avx512_bf16 amx_bf16", 128e9, 4096e9),
        ("GenuineIntel", 6, "sse2", 16e9, 16e9),
    ],
)
def test_a_cpu_has_the_peak_of_its_kind(
    vendor: str, family: int, flags: str, exact: float, rounded: float
) -> None:
    facts = f"vendor_id\t: {vendor}\ncpu family\t: {family}\ncpu MHz\t\t: 2000.000\nflags\t\t: "
    device = devices.cpu_of(facts + flags + "\n")
    assert (device.exact, device.rounded) == (exact, rounded)
    rated = "model name\t: Some CPU @ 3.00GHz\ncpu MHz\t\t: 1200.000\nflags\t\t: avx2\n"
    assert devices.cpu_of(rated).exact == 96e9, "the rated clock comes first"
    assert devices.cpu_of("").exact == 8 * devices.CLOCK


def test_what_is_named_twice_counts_once(plan: Any, tmp_path: Path) -> None:
    methods = "  simcse:\n    grid: {learning_rate: [0.001, 0.002]}\n"
    once = plan(methods, encoders="tiny-bert", seeds=1)
    assert once.trials_text == "3 trials to run"
    assert plan(methods, encoders=["tiny-bert"] * 2, seeds=[1, 1]).lines == once.lines
    space = tmp_path / "twice.yaml"
    text = (tmp_path / "space.yaml").read_text(encoding="utf-8")
    text = text.replace("[tiny-bert]", "[tiny-bert, tiny-bert]").replace("unsup", "[unsup, unsup]")
    space.write_text(text.replace("[0, 1]", "[1, 1]"), encoding="utf-8")
    assert harness.plan(space, store=tmp_path / "store").lines == once.lines
