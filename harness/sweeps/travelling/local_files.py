"""The files that trials name by paths, for the machines of a cluster.

They are the plugin, and the corpora, suites, pretrained models and other files that a user gives as
paths. What is named otherwise, such as a model of the Hub, every machine finds itself.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.data.corpora import PYTHON, file_of
from harness.data.corpora import source as source_of
from harness.data.hub import found_by_name, is_model_folder, model_files
from harness.data.revisions import parts_of
from harness.evaluation.suites import is_suite_table, suite, suite_file
from harness.files import content_digest, digest, written_whole
from harness.inputs import regular_file
from harness.plugin import registry
from harness.sweeps.travelling.file_list import FileList, ListedFile
from harness.trials.trial import Trial


class LocalFiles:
    """Writes the list of the files of each trial."""

    def __init__(self, folder: Path, node: str) -> None:
        """`folder`: for the lists; workers read them from there as long as the sweep runs.

        `node`: Ray's name of this machine.
        """
        self.folder, self.node = folder, node

    def listed(self, trial: Trial) -> dict[str, str]:
        """The arguments of `harness.sweeps.travelling.received_files.receive` for a trial.

        Raises UserError when a file is missing.
        """
        text = file_list(trial).text()
        path = self.folder / f"{digest(text)}.json"
        if not path.exists():
            with written_whole(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return {"listed": str(path), "node": self.node}


def file_list(trial: Trial) -> FileList:
    """The files that a trial names by paths, with their digests of this moment.

    Raises UserError when a file is missing.
    """
    files, links = dict[str, ListedFile](), dict[str, str]()
    for named, found in _named(trial):
        path = os.path.normpath(Path.cwd() / named.expanduser())
        if path != str(named.resolve()):
            links[path] = str(named.resolve())
        for file in map(regular_file, found):
            size = file.stat().st_size
            files[str(file)] = ListedFile(str(file), size, content_digest(file))
    return FileList(str(Path.cwd()), str(Path.home()), list(files.values()), links)


def _named(trial: Trial) -> Iterator[tuple[Path, list[Path]]]:
    """Every file or folder that a trial names by a path, and the files that it stands for."""
    declared, measured = trial.declared, trial.config.suite
    source = registry.locate(trial.method)
    yield source, _of_plugin(source)
    for name, _ in map(parts_of, declared.models):
        if is_model_folder(name):
            yield Path(name).expanduser(), model_files(name)
    corpora = [file for name in declared.corpora.values() if (file := file_of(name))]
    # Besides itself, a Python file names data.
    code = [name for name in declared.corpora.values() if name.endswith(PYTHON)]
    others = [*declared.files, *(path for name in code for path in source_of(name).paths()[:-1])]
    if script := suite_file(measured):
        corpora.append(script)
    if script or is_suite_table(measured):
        others += suite(measured).files()
    for path in (*corpora, *(each for each in others if not found_by_name(each))):
        yield path, [path.resolve()]


@cache
def _of_plugin(source: Path) -> list[Path]:
    """The files of a plugin, also data that it reads beside its code."""
    if source.is_file():
        return [source]
    inside = (path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file())
    return [
        source / path
        for path in inside
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    ]
