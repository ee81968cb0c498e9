"""The folders of a store, and the marks in them with which processes hear of each other."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.claims import claimed, owner_of
from harness.errors import UserError
from harness.owners import Owner

PROGRESS = "progress.json"
"""The file in the folder of a running trial in which it says how far it is"""
CLAIM = "claim"
"""The file that names the process which runs a trial or a sweep"""
WEIGHTS_SUFFIX = ".safetensors"
LOG_NAME = re.compile(r"[0-9a-f]{32}\.txt")
DEFAULT_STORE = Path("results/trials")


def store_option(store: Path | str) -> list[str]:
    """The words of the option with which a command uses this store; none for the default one."""
    return [] if str(store) == str(DEFAULT_STORE) else ["--store", str(store)]


def pairs_file(weights: Path, suite: str) -> Path:
    """The file of the pairs of a suite. `weights`: the file of the trial's weights beside it."""
    return weights.with_name(f"{weights.stem}.{suite.replace('/', '_')}.parquet")


def logged_keys(names: Iterable[str]) -> set[str]:
    """The keys of the trials whose logs have these names; another file is no log."""
    return {name.removesuffix(".txt") for name in names if LOG_NAME.fullmatch(name)}


class StoreFolders:
    """The places of a store: its records, the folders beside them, and the claims of trials."""

    def __init__(self, folder: Path | str = DEFAULT_STORE) -> None:
        self.folder = Path(folder)

    @property
    def place(self) -> str:
        """The address of the store as `--store` names it."""
        return str(self.folder)

    @property
    def address(self) -> str:
        """The address by which a process in any folder finds the store."""
        return str(self.folder.resolve())

    def _beside(self, content: str) -> Path:
        """A folder or file beside the store, with its name and what is in there."""
        folder = self.folder.resolve()
        return folder.with_name(f"{folder.name}-{content}")

    def _hidden(self, name: str) -> Path:
        """A hidden folder, from which what is old is removed. Raises UserError for a link."""
        folder = self.folder / name
        if folder.is_symlink():
            raise UserError(f"{folder} is a link; remove it, since a store has a folder there")
        return folder

    @property
    def weights_folder(self) -> Path:
        """The folder of the trained weights: beside the store, which has records alone."""
        return self._beside("weights")

    def weights(self, key: str) -> Path:
        """The file of a final trial's trained weights."""
        return self.weights_folder / f"{key}{WEIGHTS_SUFFIX}"

    def kept_names(self) -> set[str]:
        """The names of the files of weights and of cosines that the store has."""
        # A link leads to a file that the store does not have.
        every = self.weights_folder.glob("[!.]*")
        return {path.name for path in every if path.is_file() and not path.is_symlink()}

    def kept(self, name: str) -> Path:
        """The file of this name, of weights or of cosines, if the store has it."""
        return self.weights_folder / name

    def kept_weights(self, key: str) -> Path:
        """The file of the trained weights that the store has of a trial, if it has them."""
        return self.kept(self.weights(key).name)

    def kept_pairs(self, key: str, suite: str) -> Path:
        """The file of a trial's cosines on the test pairs of a suite, if the store has them."""
        return self.kept(pairs_file(self.weights(key), suite).name)

    @property
    def studies_folder(self) -> Path:
        """The folder of the studies of the searches, beside the store as the weights are."""
        return self._beside("studies")

    @property
    def logs_folder(self) -> Path:
        """The folder of what trials have printed, beside the store as the weights are."""
        return self._beside("logs")

    def log(self, key: str) -> Path:
        """The file of a trial's output, that of all of its attempts."""
        return self.logs_folder / f"{key}.txt"

    def kept_log(self, key: str) -> Path:
        """The file of the output that the store has of a trial, if it has one."""
        return self.log(key)

    def logged(self) -> set[str]:
        """The keys of the trials whose output the store has."""
        return logged_keys(path.name for path in self.logs_folder.glob("*.txt"))

    def log_here(self, key: str) -> Path:
        """`log`, in a folder that is there, unless the disk is full."""
        with suppress(OSError):  # what is printed is then lost, and no trial
            self.logs_folder.mkdir(parents=True, exist_ok=True)
        return self.log(key)

    @contextmanager
    def logging(self, key: str) -> Iterator[Path]:
        """In the block, an attempt adds to the output of a trial; yields its file."""
        yield self.log_here(key)

    @property
    def tracking_folder(self) -> Path:
        """The folder in which `--track` keeps its files, beside the store."""
        return self._beside("tracking")

    @property
    def running_folder(self) -> Path:
        """The folder of the trials that run.

        It is hidden, because readers of Parquet files leave hidden folders out.
        """
        return self._hidden(".running")

    def running(self, key: str) -> Path:
        """The folder of a trial that runs: its claim and its checkpoint."""
        return self.running_folder / key

    @property
    def tables_folder(self) -> Path:
        """The folder of the tables that sweeps leave: beside the store."""
        return self.folder.resolve().with_name("tables")

    @property
    def flat_file(self) -> Path:
        """The file beside the store with a flat table of all trials (`trials/publishing.py`)."""
        return self._beside("flat.parquet")

    @property
    def sweeps_folder(self) -> Path:
        """The hidden folder in which sweeps say how far they are."""
        return self._hidden(".sweeps")

    def claim(self, key: str) -> Path:
        """The file that names the process which runs a trial."""
        return self.running(key) / CLAIM

    @contextmanager
    def claimed(self, key: str, what: str) -> Iterator[None]:
        """Hold the claim of a trial during the block, as `harness.claims.claimed` does."""
        with claimed(self.claim(key), what):
            yield

    def owner(self, key: str) -> Owner | None:
        """The living process that runs a trial; None when none does."""
        return owner_of(self.claim(key))

    @property
    def at_work(self) -> bool:
        """Whether some process runs a trial or a sweep of this store."""
        folders = (self.running_folder, self.sweeps_folder)
        return any(owner_of(claim) for folder in folders for claim in folder.glob(f"*/{CLAIM}"))

    def progress_elsewhere(self) -> list[str]:
        """The contents of the files PROGRESS of trials that have no folder on this machine."""
        return []

    def leave_note(self, note: Path) -> None:
        """Make an empty file in or below `running_folder`, which the process of a trial looks for.

        Nothing happens when the trial has ended, or when the disk is full.
        """
        with suppress(OSError):
            note.touch()

    def has_note(self, note: Path) -> bool:
        """Whether there is such a file."""
        return note.exists()

    def remove_note(self, note: Path) -> None:
        """Remove such a file, if it is there."""
        with suppress(OSError):
            note.unlink(missing_ok=True)
