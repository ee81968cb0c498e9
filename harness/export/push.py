"""Sends an exported folder to the Hub, with the Hub's own client."""

import re
from pathlib import Path

from huggingface_hub import HfApi, get_token

from harness.errors import UserError, explained

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def check_name(repository: str) -> None:
    """Raises UserError for what cannot be the name of a repository."""
    if not _NAME.fullmatch(repository):
        raise UserError(
            f'"{repository}" cannot be the name of a repository; write ORGANISATION/NAME with '
            f"letters, digits, -, _ and ."
        )


def push(folder: Path, repository: str, title: str, *, private: bool) -> str:
    """Upload a folder into a repository of models, which is made if it is not there.

    The token is the one that `hf auth login` has stored, or HF_TOKEN. title: of the commit.
    private: for a new repository. Returns the address of the repository. Raises UserError when the
    Hub refuses or is away.
    """
    if get_token() is None:
        raise UserError("the Hub needs a token: log in with `hf auth login`, or set HF_TOKEN")
    with explained(f"the Hub did not take {repository}: "):
        api = HfApi()
        made = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=title)
    return str(made)
