"""Settings of all tests: their order, no process in a quick one, the cache, the real data.

The fixtures that import torch are in the modules of FIXTURES.
"""

import gc
import os
import re
import shlex
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before torch and huggingface_hub are imported: tests run beside one another, and none may ask the
# network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A trial of several threads shares its cores with other tests: its threads wait for one another
# asleep, and not in a loop, which may take most of the time of a processor.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# transformers would give each weight of a tiny model to one of several threads.
os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
# A terminal's size and colours are not the tests': they read what a pipe gets.
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)
os.environ.pop("FORCE_COLOR", None)
os.environ.pop("NO_COLOR", None)
os.environ.pop("TTY_COMPATIBLE", None)

import pytest

from tests import forked
from tests.archives import write_archive
from tests.programs import server

FIXTURES = ("tests.kits", "tests.sweeping", "tests.serial")
STARTERS = {"process", "environment", "clone"}
"""Fixtures that start processes"""
LONG = {"swept"}
"""Fixtures that take seconds"""
LONGEST = (
    "test_equal.py", "test_paper_target.py", "test_readme.py", "install", "faults", "remote",
    "sweep", "ranks", "test_types.py", "test_matrix.py", "test_resume.py", "test_after_others.py",
    "test_gpu_measurements.py", "test_tracking.py", "test_eval.py", "test_sts.py", "test_api.py",
    "test_operations.py", "test_compaction.py", "test_capture.py",
)  # fmt: skip
"""Files and folders of tests that take minutes; they begin first, so that no worker ends alone"""
QUICK_TESTS = "not slow and not process"
"""The expression behind `-m` for the quick tests, as bootstrap.py has it"""
NONE_QUICK = re.compile(r"^pytestmark = .*pytest\.mark\.(slow|process)", re.MULTILINE)
"""The line of a file that has no quick test"""
ALLOWED = {"fc-list", "git", "ldconfig", "lscpu", "nvidia-smi"}
"""Programs that a quick test may start: what matplotlib asks about fonts, the commit of a record,
what joblib asks about cores, and what a plan and torch for CUDA ask about GPUs"""
_quick: list[str] = []
"""The quick test that is running"""
_logging: list[Any] = []
"""The plugin of pytest that reads the log, while no test reads it"""


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, but not where pytest only hands the tests out to other processes."""
    hands_out = config.getoption("numprocesses", None) and not config.option.collectonly
    if hasattr(config, "workerinput") or not hands_out:
        gc.disable()  # until all is imported, of which nothing is garbage
        for name in FIXTURES:
            config.pluginmanager.import_plugin(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Let the workers be forks of a process that has imported what takes seconds, once for all."""
    for spec in specs:
        spec.python = shlex.join(forked.command(server()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For the quick tests alone, import no file that has none of them: some import seconds."""
    if config.getoption("markexpr") != QUICK_TESTS or collection_path.suffix != ".py":
        return None
    return bool(NONE_QUICK.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by their fixtures, and put the longest files first."""

    def order(item: pytest.Item) -> int:
        parts = item.path.parts
        return next((place for place, name in enumerate(LONGEST) if name in parts), len(LONGEST))

    for item in items:
        if STARTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
        if LONG & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    items.sort(key=order)
    # The garbage collector need not look at what was imported again and again.
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Leave the log alone where a test does not read it.

    Otherwise pytest hangs two handlers on each of torch's sixty loggers three times for a test,
    which takes a tenth of all time of the quick ones. Tests that do not read it follow one another,
    so its plugin comes and goes where that changes.
    """
    plugins, name = item.config.pluginmanager, "logging-plugin"
    if "caplog" not in getattr(item, "fixturenames", ()):
        if plugins.has_plugin(name):
            _logging.append(plugins.unregister(name=name))
    elif _logging:
        plugins.register(_logging.pop(), name)
    modules = len(sys.modules)
    try:
        return (yield)
    finally:
        if len(sys.modules) > modules + 100:  # what a test imports is no garbage either
            gc.collect()
            gc.freeze()


@pytest.fixture(autouse=True)
def no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test without the marker `process` fails when it starts a process."""
    if request.node.get_closest_marker("process") is None:
        _quick.append(request.node.nodeid)
    yield
    _quick.clear()


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if _quick and event == "subprocess.Popen" and Path(str(arguments[0])).name not in ALLOWED:
        raise AssertionError(f"{_quick[-1]} starts {arguments[0]}: give it the marker process")


sys.addaudithook(_refuse_processes)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HARNESS_CACHE of the session, not that of the user; and no test waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("HARNESS_CACHE", str(folder))
        yield folder


@pytest.fixture
def at_each_write(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
    """at_each_write(act): call act(path) before each file of records is written."""
    import pyarrow.parquet as pq

    whole = pq.ParquetWriter

    def go(act: Callable[[Path], None]) -> None:
        def writer(path: Path, *rest: Any, **options: Any) -> Any:
            act(path)
            return whole(path, *rest, **options)

        monkeypatch.setattr(pq, "ParquetWriter", writer)

    return go


@pytest.fixture(scope="session")
def hub() -> Path:
    """The local mirror with the real data; without one the test is skipped."""
    named = os.environ.get("HARNESS_HUB")
    if not named or not Path(named).is_dir():
        pytest.skip("needs the real data: HARNESS_HUB names no folder")
    return Path(named).resolve()  # The harness names its files so too, and CI says `..`


STS_PAIRS = 40
"""Pairs that `short_hub` leaves of each file of an STS test"""


@pytest.fixture(scope="session")
def short_hub(hub: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mirror with the first pairs of each STS test alone, whose embedding takes a second."""
    short, named = tmp_path_factory.mktemp("hub"), "datasets/princeton-nlp/datasets-for-simcse"
    paths = [hub / "models", *hub.glob("datasets/*"), *hub.glob("datasets/princeton-nlp/*")]
    for path in (*paths, *(hub / named).iterdir()):
        link = short / path.relative_to(hub)
        if hub / named != path != (hub / named).parent and path.name != "senteval.tar":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    members = {}
    with tarfile.open(hub / named / "senteval.tar") as whole:
        for member in whole:
            if member.isfile() and ("STS" in member.name or "SICK" in member.name):
                file = whole.extractfile(member)
                assert file is not None
                content = b"".join(file.readlines()[:STS_PAIRS])
                members[member.name] = content.decode("latin-1")
    write_archive(short / named / "senteval.tar", members, "latin-1")
    return short
