"""A trial that takes too much, ends its worker or prints without end fails alone, with a reason."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.errors import OUTPUT_FOLLOWS, REASON_LENGTH, UserError, headline, reason
from harness.sweeps import machines
from harness.sweeps.machines import Limits, children, family, machine_memory, parent, resident
from harness.sweeps.workers.limits import Watchdog, limited, stopped, with_log
from harness.sweeps.workers.watchdog import Watch
from harness.targets.options import seconds_of
from harness.trials.output import KEPT_BYTES, BoundedLog, last_lines, wait_for_end
from harness.trials.record import Record
from harness.trials.store import Store
from tests.programs import run_module
from tests.sweeping import BAG, TRAINED, one_grid, wait_for

PLUGIN = f'''\
import ctypes
import os
import sys
import time
from typing import Literal

import numpy as np
from torch import nn

from harness import plugin


class Config(plugin.MethodConfig):
    fault: Literal["none", "loud", "exit", "vanish", "loop", "greedy"] = "none"


{BAG}

class Method(Bag):
    """It misbehaves when it embeds."""

    def embed(self, batch):
        getattr(self, self.config.fault)()
        return super().embed(batch)

    def none(self):
        pass

    def loud(self):
        for number in range(40):
            print(f"line {{number}} " + "x" * 100_000)
        os.system("echo from a child; echo the last words >&2")
        raise ValueError("long " * 100_000)

    def exit(self):
        print("good bye")
        sys.exit(3)

    def vanish(self):
        print("I vanish", flush=True)
        os._exit(4)

    def loop(self):
        print("I search")
        ctypes.PyDLL(None).sleep(10**9)  # as a bad regular expression does, it holds Python's lock

    def greedy(self):
        print("I take")
        self.taken = []
        for _ in range(240):  # 30 GiB
            self.taken.append(np.ones(2**24))
            time.sleep(0.02)
'''
TAKE = """
        if rank_number() == 1:
            self.taken = np.ones(2**29)  # 4 GiB
"""
TAKING = """\
  taking:
    grid: {width: [8]}
    set: {engine: ddp, workers: 2, sentences: graded-sentences, max_steps: 4}
"""
"""A further method of the space, whose second worker takes too much"""
FAULTS = ["loop", "none", "loud", "exit", "vanish", "greedy"]
HEADLINES = {
    "loud": "ValueError: long long ", "exit": "SystemExit: 3", "vanish": "the worker died: ",
    "loop": "it took longer than --trial-timeout (50 seconds)", "greedy": "it took ",
}  # fmt: skip
LAST_WORDS = {"exit": "good bye", "vanish": "I vanish", "loop": "I search", "greedy": "I take"}


def slow_process(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.slow(pytest.mark.process(test))


@dataclass
class Swept:
    """The store and the output of a sweep."""

    store: Store
    printed: str
    code: int

    def __post_init__(self) -> None:
        records = self.store.read().records()
        self.finished = [row for row in records if row.finished]
        [self.taking] = [row for row in records if "width" in row.configuration]
        searched = [row for row in records if row.role == "search" and row is not self.taking]
        self.rows = {row.configuration["fault"]: row for row in searched}
        """Fault -> the record of its search trial"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A sweep with all faults, two trials at once."""
    folder = tmp_path_factory.mktemp("limits")
    (folder / "faulty.py").write_text(PLUGIN, encoding="utf-8")
    begin = "    def losses(self, batch, stage):"
    constants = f"PAUSE = 0.0\nREPAIRED = {str(folder / 'no')!r}\n"
    imports = "from harness.ranks import rank_number\n"
    source = imports + constants + TRAINED.replace(begin, begin + TAKE)
    (folder / "taking.py").write_text(source, encoding="utf-8")
    # First what takes two workers, for which the second one would wait until the loop has ended.
    space = one_grid("faulty", "fault", FAULTS).replace("methods:\n", f"methods:\n{TAKING}")
    (folder / "space.yaml").write_text(space, encoding="utf-8")
    answer = run_module(
        "harness", "sweep", "--no-local", folder / "faulty.py", folder / "taking.py",
        folder / "space.yaml", "--store", folder / "store", "--trial-timeout", "50s",
        "--memory-per-trial", "3", "--cpus-per-trial", "1",
        environment={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        timeout=1500,
    )  # fmt: skip
    return Swept(Store(folder / "store"), answer.out + answer.err, answer.code)


# More than 20 s: one trial must reach its limit of 50 seconds, within which two workers of another
# one start on a busy machine, too. Each fault costs a worker, which starts anew.
@slow_process
def test_every_fault_is_a_record_and_the_others_go_on(swept: Swept) -> None:
    assert swept.code == 1, swept.printed
    statuses = {**dict.fromkeys(HEADLINES, "failed"), "none": "finished"}
    assert {fault: row.status for fault, row in swept.rows.items()} == statuses, swept.printed
    assert {row.configuration["fault"] for row in swept.finished} == {"none"}
    assert {row.role for row in swept.finished} == {"search", "final"}
    assert "Failed trials: 6" in swept.printed
    assert "Traceback" not in swept.printed
    failures = [line for line in swept.printed.splitlines() if "FAILED" in line]
    assert len(failures) == len(HEADLINES) + 1
    assert any("fault=loop seed 42: FAILED: it took longer than" in line for line in failures)
    assert all("; see `harness logs " in line for line in failures)
    # A trial whose worker died by itself keeps its folder until it is run again.
    left = {path.name for path in swept.store.running_folder.iterdir()}
    assert left <= {swept.rows["vanish"].key}


@slow_process
def test_reason_says_what_happened_and_what_was_printed_last(
    swept: Swept, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the log stays; the trial of a worker that died has run twice."""

    from harness.cli.output import Screen
    from harness.cli.show import print_record

    for fault, beginning in HEADLINES.items():
        record, words = swept.rows[fault], LAST_WORDS.get(fault, "")
        why = str(record.reason)
        assert why.startswith(beginning)
        assert len(why) <= REASON_LENGTH
        assert OUTPUT_FOLLOWS in why
        assert words in why
        assert fault != "exit" or "sys.exit(3)" in why, "the end of the traceback"
        log = swept.store.log(record.key).read_text()
        assert log.count("== an attempt on ") == (2 if fault == "vanish" else 1)
        assert words in log
        print_record(record, "results", Screen())
        out = capsys.readouterr().out
        assert f"reason: {beginning}"[:40] in out
        assert f"\n  {words}" in out


@slow_process
def test_memory_is_limited_from_outside(swept: Swept) -> None:
    """Each worker has the limit: the second one takes too much; the trial does not begin again."""
    over = "GiB of memory, more than --memory-per-trial (3 GiB)"
    greedy, taking = (headline(record.reason) for record in (swept.rows["greedy"], swept.taking))
    assert greedy.endswith(over)
    assert float(greedy.split()[2]) < 8
    assert taking.startswith("worker 2 of 2 took "), taking
    assert taking.endswith(over)


def test_durations() -> None:
    weeks = 14 * 24 * 3600
    durations = {"90s": 90, "30m": 1800, "1.5h": 5400, f"{weeks}s": weeks, weeks + 0.5: weeks + 0.5}
    for text, seconds in durations.items():
        assert seconds_of(text, "--trial-timeout") == seconds
    for text in ("", "90", "-1s", "0s", "1 h", "1d", "nans", "9" * 99 + "h", "²s"):
        with pytest.raises(UserError, match="such as 90s, 30m or 2h"):
            seconds_of(text, "--trial-timeout")


def logged(path: Path, *words: bytes) -> bytes:
    """The log after one more attempt with this output."""
    log = BoundedLog(path)
    for word in words:
        log.add(word)
    log.close()
    return path.read_bytes() if path.exists() else b""


def test_log_keeps_the_beginning_and_the_end_of_all_attempts(tmp_path: Path) -> None:
    middle = (b"%06d " % number + b"x" * 1000 + b"\n" for number in range(3000))
    content = logged(tmp_path / "one", b"first\n", *middle, b"last\n")
    assert content.partition(b"==\n")[2].startswith(b"first\n000000 ")
    assert content.endswith(b"x\nlast\n")
    assert b"bytes are left out here]" in content
    assert len(content) < 2 * KEPT_BYTES + 200
    assert not logged(tmp_path / "missing" / "log", b"anything"), "without a folder it is lost"
    path = tmp_path / "log"
    for number in range(4):
        content = logged(path, b"x" * KEPT_BYTES + b"\nattempt %d\n" % number)
        assert last_lines(path, 9) == f"attempt {number}"
    assert b"\nattempt 2\n" in content
    assert b"\nattempt 0\n" not in content
    assert content.startswith(b"[earlier output is left out]\n")
    assert len(content) < 4 * KEPT_BYTES + 400
    logged(path, b"")
    assert with_log("it failed", path) == "it failed", "the last attempt has printed nothing"


@pytest.mark.slow
def test_reason_waits_for_a_watchdog_that_is_late(tmp_path: Path) -> None:
    """On a busy machine, the sweep hears of a death before its watchdog has read the last words."""
    log = BoundedLog(tmp_path / "log")

    def end() -> None:
        time.sleep(0.5)
        log.add(b"the last words")
        log.close(ended=True)

    late = threading.Thread(target=end)
    late.start()
    wait_for_end(tmp_path / "log", 60)
    assert with_log("died", tmp_path / "log") == f"died{OUTPUT_FOLLOWS}the last words"
    late.join()
    wait_for_end(tmp_path / "no-such-log", 60)


def test_last_lines_are_whole_and_harmless_and_a_reason_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond \xff\x1b[31m\n  5 %\r100 %\n\n")
    assert last_lines(path, 100) == "first\nsecond \ufffd?[31m\n  5 %\n100 %"
    assert last_lines(path, 15) == "  5 %\n100 %"
    assert last_lines(path, 3) == "0 %"
    assert last_lines(tmp_path / "missing", 100) == ""
    why = reason(ValueError("x" * 10_000))
    assert len(why) <= REASON_LENGTH // 4
    path.write_text("a line\n" * 1000)
    assert len(with_log(why, path)) <= REASON_LENGTH
    assert headline(with_log(why, path)) == why


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str | None]:
    """planted(total, free, others): what a watch says whose own worker occupies 100, in KiB."""
    monkeypatch.setattr(machines, "PROC", tmp_path)
    monkeypatch.setattr(machines, "GROUPS", tmp_path / "no-groups")

    def excess(total: int, free: int, *others: int) -> str | None:
        workers = {11: 100, **dict(enumerate(others, start=12))}
        files = {
            "meminfo": f"MemTotal: {total} kB\nMemAvailable: {free} kB\n",
            "self/cgroup": "0::/\n",
            "10/task/10/children": " ".join(map(str, workers)),
            **{f"{worker}/stat": f"{worker} (a worker) S 10 10" for worker in workers},
            **{f"{worker}/smaps_rollup": f"Rss: 999 kB\nPss: {occupied} kB\n"
               for worker, occupied in workers.items()},
        }  # fmt: skip
        for file, text in files.items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)
        return Watch(11, "", "", "", None, None).excess()

    return excess


def test_largest_trial_ends_before_the_memory_is_used_up(planted: Any, tmp_path: Path) -> None:
    assert planted(1000, 500) is None
    assert planted(1000, 10, 101) is None  # another trial is larger
    assert "more than any other trial" in str(planted(1000, 10, 99))
    shutil.rmtree(tmp_path)
    assert Watch(11, "", "", "", None, None).excess() is None  # the system does not say


def test_memory_is_known_here() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("needs /proc")
    total, free = machine_memory()
    assert 0 < free <= total
    assert 0 < resident(os.getpid()) < total
    assert parent(os.getpid()) == os.getppid()


PARENT = """\
import os, sys, time
from harness.sweeps.machines import adopt_orphans
adopt_orphans()
common = b"x" * (64 << 20)
worker = os.getpid()
for place in sys.argv[1:]:
    if os.fork() == 0:
        if place == "daemon" and os.fork():
            os._exit(0)
        while place == "daemon" and os.getppid() != worker:
            time.sleep(0.01)  # its first parent still has a part of what they share
        if place != "reader":
            own = b"y" * (64 << 20)
        if place == "grandchild" and os.fork() == 0:
            further = b"z" * (64 << 20)
        os.write(1, b"ready\\n")
        time.sleep(1000)
os.write(1, b"ready\\n")
time.sleep(1000)
"""
"""A process of 64 MiB and its children: one that has 64 MiB, too, one that only has what its parent
has, one whose parent has left it, and one with a child of its own that has another 64 MiB"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("started", "processes", "blocks"),
    [("", 1, 1), ("reader reader reader", 4, 1), ("child", 2, 2), ("daemon", 2, 2),
     ("grandchild", 3, 3)],
)  # fmt: skip
def test_memory_of_all_that_a_trial_starts(
    tmp_path: Path, started: str, processes: int, blocks: int
) -> None:
    """Memory that a fork shares with its parent counts once, and all of it ends together."""
    program = [sys.executable, "-c", PARENT, *started.split()]
    worker = subprocess.Popen(program, stdout=subprocess.PIPE)
    for _ in range(processes):
        assert worker.stdout.readline() == b"ready\n"
    members = family(worker.pid)
    allowed = 64 * blocks + 40  # MiB, with Python itself
    over, under = (
        Watch(worker.pid, str(tmp_path), "", "", None, float(mib << 20))
        for mib in (64 * blocks - 1, allowed)
    )
    assert under.excess() is None
    assert "of memory, more than --memory-per-trial" in str(over.excess())
    over.stop("it took too much")
    assert worker.wait(60) == -9
    assert len(members) >= processes
    wait_for(lambda: not any(map(resident, members)), 60)
    assert not any(map(resident, members))


@pytest.mark.process
def test_watchdog_keeps_output_of_every_kind(tmp_path: Path) -> None:
    dog = Watchdog()
    for number in range(2):  # one watchdog serves all trials of a worker
        log = tmp_path / f"{number}.txt"
        with dog.watching(tmp_path, log, "sweep", Limits(seconds=1000.0)):
            os.system(f"echo trial {number}")
            sys.__stdout__.flush() if sys.__stdout__ else None
        head, *output = log.read_text().splitlines()
        assert head.startswith("== an attempt on ")
        assert output == [f"trial {number}"]


WAITING = """\
import sys, time
from pathlib import Path
from harness.sweeps.machines import Limits
from harness.sweeps.workers.limits import Watchdog
folder, dog = Path(sys.argv[1]), Watchdog.here()
with dog.watching(folder, folder / "log", "sweep", Limits(seconds=3.0)):
    for _ in range(2):
        with dog.waiting():
            time.sleep(1.6)
    (folder / "waited").touch()
    time.sleep(1000)
"""


@pytest.mark.process
def test_time_in_which_the_driver_keeps_a_trial_waiting_does_not_count(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WAITING, str(tmp_path)])
    assert worker.wait(60) == -9
    assert (tmp_path / "waited").exists()
    assert "it took longer than --trial-timeout (3 seconds)" in str(stopped(tmp_path, "sweep"))


def kill_watchdogs() -> None:
    for process in children(os.getpid()):
        if b"harness.sweeps.workers.watchdog" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)


@pytest.mark.process
def test_watchdog_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """At once, too: a killed process lives for a moment; and in a trial, which goes on."""
    with Watchdog.here().watching(tmp_path, tmp_path / "during", "sweep", Limits()):
        kill_watchdogs()
    for number in range(10):
        log = tmp_path / f"{number}.txt"
        with Watchdog.here().watching(tmp_path, log, "sweep", Limits()):
            os.system("echo still here")
        assert log.read_text().endswith("==\nstill here\n")
        first = Watchdog.here()
        assert Watchdog.here() is first
        kill_watchdogs()
        time.sleep(number / 1000)


@pytest.mark.process
def test_trials_that_share_a_gpu_share_its_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A context of 768 MiB takes 0.05 of a GPU with 15 GiB, besides what torch allocates."""
    fractions: list[float] = []
    properties = SimpleNamespace(total_memory=15 * 2**30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    record = Record("key", "finished", "final", "pooling", "unsup", "tiny-bert", 0, {})
    for gpus, shares in ((1, []), (2, []), (0, []), (0.25, [0.2])):
        limits = Limits(gpus=gpus)
        assert limited(tmp_path, tmp_path / "log", "sweep", limits, lambda: record) is record
        assert fractions == pytest.approx(shares)


@pytest.mark.process
def test_note_counts_in_its_own_sweep_only(tmp_path: Path) -> None:
    """Another sweep may have a longer limit."""
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Watch(worker.pid, str(tmp_path), "", "this sweep", 1.0, None).stop("it took too long")
    assert worker.wait(60) == -9
    assert stopped(tmp_path, "this sweep") == "it took too long"
    assert stopped(tmp_path, "another sweep") is None
