"""Names of encoders and data sets with what follows an `@`: a revision of the Hub, or a trial.

`bert-base-uncased@REVISION` is the model as a branch, a tag or a commit of the Hub has it; without
a revision it is that of the default branch. In a mirror, a revision is a folder `NAME@REVISION`,
because a plain folder does not say which revision it is. `bert-base-uncased@KEY` is the model with
the weights that the trial KEY has trained; its configuration and tokenizer are the model's.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import UserError
from harness.files import cache_folder

WEIGHTS = "weights.safetensors"
"""The file of the weights; the names in it are those of the pretrained model"""
_TRAINED = re.compile(r"(?P<model>.+)@(?P<trial>[0-9a-f]{32})")


def parts_of(encoder: str) -> tuple[str, str | None]:
    """The pretrained model behind an encoder, and the key of the trial that has trained it.

    The key is None for a pretrained model.
    """
    match = _TRAINED.fullmatch(encoder)
    return (match["model"], match["trial"]) if match else (encoder, None)


def trained_name(encoder: str, trial: str) -> str:
    """The name of the encoder that the trial with this key has trained."""
    return f"{encoder}@{trial}"


def trained_folder(trial: str) -> Path:
    """The folder of the cache that has the encoder of the trial with this key."""
    return cache_folder() / "encoders" / trial


RepositoryKind = Literal["models", "datasets"]
_NAME = re.compile(
    r"(?P<repository>[\w-][\w.-]*(?:/[\w-][\w.-]*)?)@(?P<revision>\w[\w.-]*(?:/\w[\w.-]*)*)",
    re.ASCII,
)
"""The pattern of a model with a revision, of which no part can lead out of a folder"""
SLASH_OF_DATA = "%2F"
"""A slash in the branch of a data set, behind which the name of a configuration may stand"""
REPOSITORY = re.compile(r"(?:models|datasets)(?:/[\w-][\w.-]*){1,2}", re.ASCII)
"""The pattern of a repository in a record"""
COMMIT = re.compile("[0-9a-f]{40}")
"""The pattern of a commit"""
_resolved: dict[tuple[str, str, str, str | None], str] = {}
"""(folder of the downloads, kind, repository, revision) -> the commit that this process has for it;
a branch may move on while trials run"""
Resolved = Sequence[tuple[str, str, str | None, str]]
"""(kind, repository, revision, its commit)"""


def split_revision(model: str) -> tuple[str, str | None]:
    """The name of a pretrained model without its revision, and the revision; None: it names none.

    The path of a folder is not split.
    """
    found = _NAME.fullmatch(model)
    return (found["repository"], found["revision"]) if found else (model, None)


def repository_of(encoder: str) -> str:
    """The name of the model behind an encoder, whatever its revision, and whoever trained it."""
    return split_revision(parts_of(encoder)[0])[0]


def without_revision(encoder: str) -> str:
    """The name of an encoder, whatever the revision of its model."""
    trial = parts_of(encoder)[1]
    return trained_name(repository_of(encoder), trial) if trial else repository_of(encoder)


def short_name(encoder: str) -> str:
    """An encoder as people read it: no organisation or folder, ten digits of a commit or a key."""
    model, trial = parts_of(encoder)
    repository, revision = split_revision(model)
    if revision and COMMIT.fullmatch(revision):
        revision = revision[:10]
    return "@".join(filter(None, (Path(repository).name, revision, trial and trial[:10])))


def snapshot(
    kind: RepositoryKind,
    repository: str,
    revision: str | None,
    patterns: Sequence[str],
    *,
    download: bool,
) -> Path:
    """The folder of the Hub's snapshot, with the files that match `patterns`.

    Without `download`, only what was downloaded before counts. All that a process reads of one
    revision is of one commit. Raises UserError when the Hub has the repository without this
    revision, and what `snapshot_download` raises when it has nothing.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RevisionNotFoundError

    request = str(downloads()), kind, repository, revision
    try:
        folder = snapshot_download(
            repository,
            repo_type=kind.removesuffix("s"),
            revision=_resolved.get(request, revision),
            allow_patterns=list(patterns),
            local_files_only=not download,
        )
    except RevisionNotFoundError:
        noun = "model" if kind == "models" else "data set"
        raise UserError(
            f'the {noun} "{repository}" of the Hub has no revision "{revision or "main"}": name a '
            f"branch, a tag or a whole commit of it"
        ) from None
    if download:
        _resolved[request] = Path(folder).name
    return Path(folder)


def resolved_here() -> Resolved:
    """The commits that this process has for revisions of the Hub."""
    here = str(downloads())
    return [
        (kind, repository, revision, commit)
        for (folder, kind, repository, revision), commit in _resolved.items()
        if folder == here
    ]


def resolve_as(commits: Resolved) -> None:
    """Read the same commits as the process that has sent them, wherever a branch is now."""
    here = str(downloads())
    for kind, repository, revision, commit in commits:
        _resolved[here, kind, repository, revision] = commit


def downloads() -> Path:
    """The folder of what was downloaded from the Hub."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser().resolve()


def was_downloaded(kind: RepositoryKind, repository: str) -> bool:
    """Whether something of a repository was downloaded; also for what cannot be the name of one."""
    folder = downloads() / "--".join((kind, *repository.split("/")))
    return not REPOSITORY.fullmatch(f"{kind}/{repository}") or folder.exists()


def hub_failure() -> str | None:
    """The reason why the Hub does not answer; None where it does.

    Its own client takes a quarter of a second to import, asks six times in 23 s, and has other
    errors in each version.
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=10).close()
    except HTTPError:
        return None  # it answers
    except URLError as error:
        return f"{constants.ENDPOINT}: {getattr(error.reason, 'strerror', None) or error.reason}"
    except OSError as error:
        return f"{constants.ENDPOINT}: {error.strerror or error}"
    return None


def downloaded_revisions(kind: RepositoryKind, repository: str) -> list[str]:
    """The names `ORGANISATION/NAME@REVISION` of what was downloaded: branches, tags, commits."""
    folder = downloads() / "--".join((kind, *repository.split("/")))
    references = [path for path in (folder / "refs").rglob("*") if path.is_file()]
    names = [path.relative_to(folder / "refs").as_posix() for path in references]
    if kind == "datasets":
        names = [
            each if each[:5] == "refs/" else each.replace("/", SLASH_OF_DATA) for each in names
        ]
    names += [path.name for path in (folder / "snapshots").glob("*")]
    return [f"{repository}@{name}" for name in names]


def commits_of(paths: Iterable[Path]) -> dict[str, str]:
    """The commits of the Hub's snapshots in which files or folders lie.

    `models/ORGANISATION/NAME` or `datasets/...` -> the commit; of several, all of them. Files of
    mirrors and of other folders have none.
    """
    commits, folder = defaultdict[str, set[str]](set), downloads()
    for path in paths:
        if path.is_relative_to(folder):
            cached, snapshots, commit, *_ = (*path.relative_to(folder).parts, "", "", "")
            name = cached.replace("--", "/")
            if snapshots == "snapshots" and COMMIT.fullmatch(commit) and REPOSITORY.fullmatch(name):
                commits[name].add(commit)
    return {name: ", ".join(sorted(commits[name])) for name in sorted(commits)}
