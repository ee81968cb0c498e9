"""Planted secrets, and a look for them in whatever a sweep leaves."""

from collections.abc import Mapping
from pathlib import Path

PLANTED = "planted5ecret"
_KEYS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
    "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AZURE_STORAGE_KEY", "GOOGLE_API_KEY",
)  # fmt: skip
SECRETS = {
    **dict.fromkeys(_KEYS, PLANTED),
    "WANDB_API_KEY": f"{PLANTED:x<40}",
    "HTTPS_PROXY": f"http://user:{PLANTED}@127.0.0.1:1",
    "MLFLOW_TRACKING_URI": f"http://user:{PLANTED}@127.0.0.1:1",
}
"""Environment variables in which users have secrets"""


def leaks(folder: Path, environment: Mapping[str, str]) -> list[Path]:
    """The files of a folder that have a planted secret, or the token of Ray in this environment."""
    words = [PLANTED, *filter(None, [environment.get("RAY_AUTH_TOKEN")])]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(word in path.read_text("latin-1") for word in words)]
