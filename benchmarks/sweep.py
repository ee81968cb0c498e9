"""Cost of sweeps beyond the work of their trials, and their savings.

    python benchmarks/sweep.py overhead --trials 100 1000   # a further trial, the driver's time
    python benchmarks/sweep.py sharing                      # a shared first stage, or none
    python benchmarks/sweep.py nodes --nodes 1 2 4          # sleeping trials on simulated nodes
    python benchmarks/sweep.py plain                        # beside Ray Tune without harness
    python benchmarks/sweep.py reused                       # beside Ray Tune with reused workers
    python benchmarks/sweep.py ends                         # a sweep with nothing left to run

A short try: `python benchmarks/sweep.py overhead --trials 2 4`. All use the embedded encoder.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial

SPACE = """\
setting: {setting}
suite: graded
select: {{metric: graded-dev}}
final: {{seeds: {seeds}}}
encoders: [tiny-bert]
set: {{sentences: graded-sentences, triplets: graded-triplets, batch_size: 16, {values}}}
methods: {{{methods}}}
"""
SLEEPER = '''\
import time
from harness import plugin
import torch


class Config(plugin.MethodConfig):
    number: int = 0


class Method(plugin.Method[Config]):
    """It sleeps, so that any number of nodes of one machine can run it."""

    def __init__(self, config, kit):
        super().__init__(config, kit)
        time.sleep(SECONDS)
        self.words = torch.nn.Embedding(len(kit.tokenizer), 8)

    @property
    def longest(self):
        return 64

    def embed(self, batch):
        return self.words(batch.input_ids).mean(1)
'''


@dataclass(frozen=True)
class Run:
    """A sweep that has ended."""

    seconds: float
    """From its start to its end"""
    driver_seconds: float
    """Time that the driver has computed"""
    driver_mib: float
    """Most memory of the driver"""
    span: float
    """Seconds from the start of the first trial to the end of the last one"""
    searching: float
    """The same of the trials of the search alone"""
    work: float
    """Seconds of all trials"""
    ending: float
    """Seconds from the last line to the end of the process"""


def write_space(folder: Path, methods: str, *, seeds: int = 1, setting: str = "unsup",
                values: str = "max_steps: 2") -> Path:  # fmt: skip
    """Write a search space into the folder."""
    path = folder / "space.yaml"
    text = SPACE.format(setting=setting, seeds=list(range(seeds)), values=values, methods=methods)
    path.write_text(text, encoding="utf-8")
    return path


def write_sleeper(folder: Path, seconds: float, trials: int) -> tuple[Path, Path]:
    """Write a method whose trials sleep, and a search space of so many of them."""
    plugin = folder / "sleeper.py"
    plugin.write_text(SLEEPER.replace("SECONDS", str(seconds)), encoding="utf-8")
    space = write_space(
        folder, f"sleeper: {{grid: {{number: {{from: 1, to: {trials}, step: 1}}}}}}"
    )
    lines = space.read_text(encoding="utf-8").splitlines(keepends=True)
    # It has none of the hyperparameters that the other spaces set.
    space.write_text("".join(line for line in lines if not line.startswith("set:")), "utf-8")
    return plugin, space


def sweep(*targets: Path, store: Path, options: tuple[str, ...] = (), **changed: str) -> Run:
    """Run a sweep in a process of its own."""
    command = [sys.executable, "-m", "harness", "sweep", "--no-local", *map(str, targets)]
    started = last = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--store", str(store), *options],
        stdout=subprocess.PIPE, env=os.environ | changed,
    )  # fmt: skip
    assert process.stdout
    for _ in process.stdout:
        last = time.perf_counter()
    _, status, used = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    assert status == 0, f"the sweep ended with {status}"
    records = Store(store).read().records()
    walls = [record.wall_seconds or 0 for record in records]
    searched = [record for record in records if record.role == "search"]
    return Run(
        seconds=ended - started,
        driver_seconds=used.ru_utime + used.ru_stime,
        driver_mib=used.ru_maxrss / 1024,
        span=span(records),
        searching=span(searched) if searched else 0,
        work=sum(walls),
        ending=ended - last,
    )


def span(records: list[Record]) -> float:
    """Seconds from the start of the first trial to the end of the last one."""
    begun = [record.started.timestamp() for record in records if record.started]
    walls = [record.wall_seconds or 0 for record in records]
    return max(map(sum, zip(begun, walls, strict=True))) - min(begun)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one measurement, with a short path for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="hb", ignore_cleanup_errors=True) as name:
        yield Path(name)


def overhead(trials: list[int]) -> None:
    """A further trial beyond its work, with all CPUs for one trial.

    The trials train nothing, so that a sweep of 10,000 of them ends.
    """
    cpus = str(os.cpu_count() or 1)
    seconds = {}
    for number in (1, *trials):  # the first one fills the caches, too
        with folder() as where:
            plugin, space = write_sleeper(where, 0.0, number)
            seconds[number] = sweep(
                plugin, space, store=where / "t", options=("--cpus-per-trial", cpus)
            )
    one = seconds[1]
    for number in trials:
        run, more = seconds[number], number - 1
        beyond = (run.seconds - one.seconds - (run.work - one.work)) / more
        driver = (run.driver_seconds - one.driver_seconds) / more
        print(
            f"{number} trials: {beyond:.2f} s a trial beyond its work; the driver computes "
            f"{driver:.3f} s a trial and has {run.driver_mib:.0f} MiB"
        )


def sharing() -> None:
    """A grid over the length of DiffAug's first stage, and the same trials without sharing."""
    lengths = [125 * number for number in range(1, 13)]  # to 1,500, that of the paper
    small = "max_steps: 20, stage1_batch_size: 16, auxiliary_batch_size: 16"
    grid = f"diffaug: {{set: {{{small}}}, grid: {{stage1_steps: {lengths}}}}}"
    with folder() as where:
        space = write_space(where, grid, setting="semisup", values="precision: fp32")
        # As many threads for a trial as those have that run one by one.
        cpus = ("--cpus-per-trial", str(os.cpu_count() or 1))
        shared = sweep(space, store=where / "t", options=cpus, HARNESS_CACHE=str(where / "cache"))
        [search] = searches(*load_space(space), Overrides())
        trials = search.trials(search.configurations(0, []), "search")
        alone = 0.0
        for number, trial in enumerate(trials):
            os.environ["HARNESS_CACHE"] = str(where / f"cache-{number}")
            started = time.perf_counter()
            assert attempt(trial, lambda _: None).finished
            alone += time.perf_counter() - started
    print(
        f"12 lengths of the first stage: one by one {alone:.0f} s; the sweep, with its start and a "
        f"final trial, {shared.seconds:.0f} s: {alone / shared.seconds:.1f} times less"
    )


def nodes(numbers: list[int], seconds: float = 2.0, trials: int = 40) -> None:
    """Sleeping trials on simulated nodes of this machine, with one CPU each."""
    for number in numbers:
        with folder() as where:
            plugin, space = write_sleeper(where, seconds, trials * number)
            token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2}
            with cluster(number, where, token) as address:
                run = sweep(
                    plugin, space, store=where / "t", options=("--address", address), **token
                )
        share = run.work / (number * run.span)
        print(f"{number} nodes: {100 * share:.1f} % of linear over {trials * number} trials")


@contextmanager
def cluster(number: int, where: Path, token: dict[str, str]) -> Iterator[str]:
    """A Ray cluster of so many nodes with one CPU each; its address."""
    ray = [str(Path(sys.executable).with_name("ray"))]
    environment = os.environ | token
    address = f"127.0.0.1:{20_000 + os.getpid() % 10_000}"
    head = ["--head", f"--port={address.partition(':')[2]}", "--include-dashboard=false"]
    try:
        for more in ([*head, f"--temp-dir={where}/r"], *[[f"--address={address}"]] * (number - 1)):
            subprocess.run(
                [*ray, "start", "--num-cpus=1", *more], env=environment, check=True,
                capture_output=True,
            )  # fmt: skip
        yield address
    finally:
        subprocess.run([*ray, "stop", "--force"], env=environment, check=False, capture_output=True)


def plain(trials: int = 12) -> None:
    """The same trials by harness, and by Ray Tune with a process for each."""
    with folder() as where:
        space = write_space(where, "simcse: ", seeds=trials, values="max_steps: 20")
        ours = sweep(space, store=where / "t").seconds
        [search] = searches(*load_space(space), Overrides())
        theirs, _ = by_tune(search.trials([search.fixed], "final"), where)
    print(
        f"{trials} trials: harness {ours:.0f} s, Ray Tune with a process each {theirs:.0f} s: "
        f"{ours / theirs:.2f} of the time"
    )


def reused(seconds: float = 2.0, trials: int = 40, rounds: int = 2) -> None:
    """The same sleeping trials by harness, and by Ray Tune whose workers also run several."""
    for number in range(rounds):
        with folder() as where:
            plugin, space = write_sleeper(where, seconds, trials)
            ours = sweep(plugin, space, store=where / "t").searching
            [search] = searches(*load_space(space), Overrides(methods=[str(plugin)]))
            listed = search.configurations(0, [])
            _, theirs = by_tune(search.trials(listed, "search"), where, reuse=True)
        print(
            f"{trials} trials that sleep for {seconds:g} s, from the first start to the last end, "
            f"round {number + 1}: harness {ours:.1f} s, Ray Tune {theirs:.1f} s: "
            f"{ours / theirs:.2f} of the time"
        )


def by_tune(trials: list[Trial], where: Path, *, reuse: bool = False) -> tuple[float, float]:
    """Seconds of plain Ray Tune: of the whole, and from the first start of a trial to the last end.

    reuse: whether a worker runs one trial after the other.
    """
    asked = [
        {"method": trial.method, "configuration": dict(trial.configuration), "seed": trial.seed}
        for trial in trials
    ]
    script = where / "plain.py"
    script.write_text(PLAIN.format(trials=asked, reuse=reuse, folder=str(where)), encoding="utf-8")
    started = time.perf_counter()
    done = subprocess.run([sys.executable, script], check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - started, float(done.stdout.rpartition("span ")[2])


PLAIN = """\
import time

import torch
from ray import tune

from harness.trials.run import attempt
from harness.trials.trial import Trial


class One(tune.Trainable):
    def setup(self, config):
        torch.set_num_threads(1)

    def step(self):
        started = time.time()
        record = attempt(Trial(**self.config["trial"]), lambda _: None)
        assert record.finished, record.reason
        times = {{"started": started, "ended": time.time()}}
        return {{"dev": record.dev_score, "done": True, **times}}

    def reset_config(self, config):
        return True

    def save_checkpoint(self, folder):
        return {{}}


if __name__ == "__main__":
    tuner = tune.Tuner(
        tune.with_resources(One, {{"cpu": 1}}),
        param_space={{"trial": tune.grid_search({trials})}},
        tune_config=tune.TuneConfig(reuse_actors={reuse}),
        run_config=tune.RunConfig(verbose=0, storage_path={folder!r}),
    )
    results = tuner.fit()
    assert not results.errors
    ended = max(each.metrics["ended"] for each in results)
    print("span", ended - min(each.metrics["started"] for each in results))
"""


def ends(rounds: int = 7) -> None:
    """A sweep with nothing left to run: from Enter to the prompt, and after its last line."""
    with folder() as where:
        space = write_space(where, "simcse: {grid: {learning_rate: [1e-4, 1e-3]}}", seeds=3)
        sweep(space, store=where / "t")
        runs = [sweep(space, store=where / "t") for _ in range(rounds)]
    print(
        f"a finished sweep: {median(run.seconds for run in runs):.1f} s, of which "
        f"{median(run.ending for run in runs):.2f} s after the last line (medians of {rounds})"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "measurement", choices=["overhead", "sharing", "nodes", "plain", "reused", "ends"]
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    if options.measurement == "overhead":
        overhead(options.trials)
    elif options.measurement == "nodes":
        nodes(options.nodes)
    else:
        {"sharing": sharing, "plain": plain, "reused": reused, "ends": ends}[options.measurement]()


if __name__ == "__main__":
    main()
