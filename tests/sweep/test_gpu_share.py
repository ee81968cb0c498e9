"""Shares of GPUs from planted peaks; no GPU, no training."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.errors import UserError, headline
from harness.sweeps.cluster.capacity import Capacity, fitting
from harness.sweeps.cluster.ray_pool import affordable
from harness.sweeps.machines import Gpu, Limits, Resources, listed_gpus
from harness.sweeps.pool import Job
from harness.sweeps.run import Sweep
from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.workers.gpu_share import (
    CONTEXT_MIB,
    HEADROOM,
    MOST_TOGETHER,
    GpuShares,
    allowed_fraction,
    batch_tokens,
    share_of,
)
from harness.sweeps.workers.worker import run_one, settings_of
from harness.targets.options import gpus_of
from harness.trials.run import attempt
from harness.trials.shared_parts import Part
from harness.trials.store import Store
from harness.trials.trial import Trial, describe, facts_of, failed, key, pruned
from tests.sweep.conftest import Playing

H100, A10 = Gpu("NVIDIA H100 80GB HBM3", 81559), Gpu("NVIDIA A10", 23028)
PEAK = (H100.memory_mib / 4 - CONTEXT_MIB) / HEADROOM
"""MiB of which four fit on an H100, and not one MiB more"""
SharesOf = Callable[..., GpuShares]


def job(key: str, batch_size: int = 64, **values: Any) -> Job:
    given = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
    return Job(key, Trial("simcse", {**given, "batch_size": batch_size, **values}, 0))


def device_of(gpu: Gpu, peak: float | None = PEAK) -> dict[str, Any]:
    return {"peak_gpu_memory_mib": peak, "device": gpu.name}


def ran(peak: float) -> dict[str, Any]:
    """Message of the worker of a trial at its end."""
    return {"status": "finished", **device_of(H100, peak)}


@pytest.fixture
def shares_of(tmp_path: Path) -> SharesOf:
    """shares_of(wanted, GPU, ...): the shares of a sweep on these GPUs, with an empty store."""
    return lambda wanted, *gpus: GpuShares(wanted, gpus, len(gpus), Store(tmp_path / "store"))


def test_as_many_trials_share_a_gpu_as_fit_with_headroom() -> None:
    """All caps and contexts fit together, and a measured trial fits under its cap."""
    for peak, together in {60_000: 1, PEAK: 4, PEAK + 1: 3, 10_000: 6, 1: MOST_TOGETHER}.items():
        share = share_of(peak, H100.memory_mib)
        assert share == pytest.approx(1 / together, abs=1e-4)
        # Ray counts in units of 0.0001 and rounds up: 7 times 0.142857 would be more than a GPU.
        assert round(share * 10_000) == share * 10_000
        assert share * together <= 1
    for share in (0.5, 0.25, 0.125):
        each = allowed_fraction(share, A10.memory_mib) * A10.memory_mib + CONTEXT_MIB
        assert each / share == pytest.approx(A10.memory_mib)
    share = share_of(PEAK, H100.memory_mib)
    assert allowed_fraction(share, H100.memory_mib) * H100.memory_mib > 1.2 * PEAK
    assert allowed_fraction(0.01, A10.memory_mib) == 0


def test_sizes_and_gpus_as_they_are_said() -> None:
    sizes = {"batch_size": 256, "auxiliary_batch_size": 128, "max_length": 32, "epochs": 9}
    assert batch_tokens(sizes) == 384 * 32
    assert batch_tokens({"pooling": "cls"}) == 0
    printed = f"{H100.name}, 81559\nNVIDIA, odd, 23028\nNVIDIA A10, [N/A]\n"
    assert listed_gpus(printed) == (H100, Gpu("NVIDIA, odd", 23028))
    for text, gpus in {None: None, "auto": "auto", "0": 0, "0.25": 0.25, "2": 2}.items():
        assert gpus_of(text) == gpus
    sentence = r"such as 0\.5, a whole number of GPUs, 0 for none, or"
    for text in ("", "all", "-1", "1.5", "nan", "inf", "1e400", "0,5"):
        with pytest.raises(UserError, match=sentence):
            gpus_of(text)


def test_first_trial_has_a_gpu_of_its_own_and_its_peak_decides(
    shares_of: SharesOf, tmp_path: Path
) -> None:
    shares = shares_of("auto", H100)
    first = job("first")
    assert shares.begun(first) == 1
    assert shares.waiting  # what is handed out now would have to be measured, too
    shares.ended("first", first.trial, ran(PEAK))
    assert not shares.waiting
    assert shares.begun(job("other values", learning_rate=1e-3)) == 0.25
    assert shares.begun(job("smaller batches", batch_size=32)) == 0.25
    assert not shares.waiting
    for unlike in ({"batch_size": 128}, {"max_length": 64}, {"setting": "sup"}):
        assert shares.begun(job("next", **unlike)) == 1, "it is measured again"
        assert shares.waiting
    # Records of the same GPU decide without a first trial.
    for number, gpu, share in ((1, A10, 1), (2, H100, 0.25)):
        stored = replace(describe(job("stored").trial), key=f"{number:032x}", **device_of(gpu))
        Store(tmp_path / "store").write(stored)
        assert shares_of("auto", H100).begun(job("next", learning_rate=1e-3)) == share


def test_every_gpu_may_measure_a_trial(shares_of: SharesOf) -> None:
    shares = shares_of("auto", H100, H100)
    assert shares.begun(job("one")) == 1
    assert not shares.waiting
    assert shares.begun(job("two")) == 1
    assert shares.waiting
    shares.ended("one", job("one").trial, {})  # its worker died
    assert not shares.waiting
    # A share suffices on the smallest GPU.
    shares = shares_of("auto", H100, A10)
    shares.ended("first", job("first").trial, ran(PEAK))
    assert shares.begun(job("next")) == share_of(PEAK, A10.memory_mib) == 1


def test_a_trial_that_needed_more_gets_a_whole_gpu_with_its_kind(shares_of: SharesOf) -> None:
    for wanted in ("auto", 0.25):
        shares = shares_of(wanted, H100)
        shares.ended("first", job("first").trial, ran(PEAK))
        greedy = job("greedy")
        assert shares.begun(greedy) == 0.25
        shares.ended("greedy", greedy.trial, {"status": "postponed", "needs_more": True})
        assert shares.begun(greedy) == shares.begun(job("alike")) == 1
        assert not shares.waiting  # nothing is left to be measured


def test_parts_need_a_gpu_only_where_a_model_computes(shares_of: SharesOf, tmp_path: Path) -> None:
    shares = shares_of("auto", H100)
    shares.ended("first", job("first").trial, ran(PEAK))
    for computes, gpus in ((False, 0), (True, 1)):
        part = Part("part", "a part", job("x").trial, None, computes=computes)
        assert shares.begun(replace(job("part"), part=part)) == gpus
    # Of GPUs that cannot be asked, every trial has a whole one.
    shares = GpuShares("auto", (), 4, Store(tmp_path / "store"))
    shares.ended("first", job("first").trial, ran(PEAK))
    assert shares.begun(job("next")) == 1
    assert not shares.waiting


# The memory of a process, and what happens beyond it


GREEDY = """\
import weakref

import torch
from methods.pooling.method import Method as Pooling


class Method(Pooling):
    made = []

    def embed(self, batch):
        self.made.append(weakref.ref(self))
        raise torch.OutOfMemoryError("CUDA out of memory")
"""


@pytest.fixture
def greedy(tmp_path: Path) -> Trial:
    """A trial that needs more memory than there is; `Method.made` has weak references to it."""
    plugin = tmp_path / "greedy.py"
    plugin.write_text(GREEDY, encoding="utf-8")
    return Trial(str(plugin), {"encoder": "tiny-bert", "suite": "graded"}, 0)


@pytest.mark.slow
def test_only_a_trial_that_shares_a_gpu_is_run_again(greedy: Trial) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        attempt(greedy, lambda _: None, shares_gpu=True)
    record = attempt(greedy, lambda _: None)
    assert record.status == "failed"
    assert headline(record.reason) == "OutOfMemoryError: CUDA out of memory"


@pytest.mark.slow
@pytest.mark.process  # its watchdog
def test_a_worker_that_ran_out_keeps_nothing_of_the_trial(
    greedy: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error's traceback holds the model; when the next job is asked for, it is gone."""
    seen: list[tuple[str, bool]] = []
    method: Any = greedy.plugin.method

    def note(moment: str) -> None:
        seen.extend((moment, model() is None) for model in method.made)

    monkeypatch.setattr("ray.tune.report", lambda report: note(report["status"]))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: note("emptied"))
    limits, store = Limits(gpus=0.25), str(tmp_path / "store")
    settings = settings_of(Job(key(greedy), greedy), 0.25, None)
    run_one(settings, store=store, sweep="1", commit="", cpus=1, limits=limits)
    assert seen[-2:] == [("emptied", True), ("postponed", True)]


def test_the_driver_does_not_ask_its_gpu_about_a_trial_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver that asked would take memory of the GPU, and name the wrong machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: pytest.fail("it was asked"))
    trial = job("elsewhere").trial
    for record in (failed(trial, "its worker died", here=False), pruned(trial, "its search")):
        assert (record.host, record.device, record.threads) == (None, None, None)
    assert facts_of(trial)["method"] == "simcse"


def test_default_and_auto_are_0_without_gpus_and_more_than_there_is_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wishes: list[tuple[Any, int, Any]] = [
        (None, 2, 1), (None, 0, 0), ("auto", 2, "auto"), ("auto", 0, 0), (0.5, 2, 0.5), (0, 2, 0)
    ]  # fmt: skip
    for wanted, gpus, granted in wishes:
        node = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": gpus}}
        monkeypatch.setattr("ray.nodes", lambda node=node: [node])
        assert affordable(Resources(2, wanted), Capacity(), print) == Resources(2, granted)
        with pytest.raises(UserError, match=r"no machine has .* lower --cpus-per-trial"):
            affordable(Resources(2, gpus + 0.5), Capacity(), print)


def test_trials_are_checked_before_the_first_one_and_only_those_to_run(playing: Playing) -> None:
    search = playing.search("    grid: {batch_size: [8, 16], learning_rate: [1e-3]}\n")
    asked: list[list[Trial]] = []
    pool: Any = SimpleNamespace(check_fits=lambda trials: asked.append(list(trials)))
    store, watcher = playing.store, SweepWatcher()
    small, large = search.known_trials()
    store.write(describe(small))
    Sweep([search], store, lambda: pool, watcher, watcher).check()
    assert asked == [[large]]
    store.write(describe(large))
    Sweep([search], store, lambda: pytest.fail("Ray starts"), watcher, watcher).check()


def test_a_worker_is_on_one_machine() -> None:
    for bundle, machines, count in (
        ({"CPU": 1, "GPU": 0}, [{"CPU": 4.0}, {}, {"CPU": 2.0, "GPU": 1.0}], 6),
        ({"CPU": 2, "GPU": 0}, [{"CPU": 3.0}, {"CPU": 3.0}, {"CPU": 3.0}], 3),
        ({"CPU": 1, "GPU": 1}, [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 1.0, "GPU": 4.0}], 3),
        ({"CPU": 0.5, "GPU": 0.3333}, [{"CPU": 8.0, "GPU": 2.0}], 6),
        ({"CPU": 1, "GPU": 0}, [], 0),
    ):
        assert fitting(bundle, machines) == count
