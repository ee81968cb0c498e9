"""The plugins that `harness new` writes, to start from."""

from importlib.resources import files
from typing import Literal, get_args

Skeleton = Literal["simcse", "prompts", "pairs", "two-stage", "frozen"]
SKELETONS: tuple[Skeleton, ...] = get_args(Skeleton)


def skeleton(like: Skeleton, name: str) -> str:
    """The source of a plugin called `name`.

    like: views that differ by dropout (simcse), prompts on a frozen encoder, labelled pairs, two
    stages, or a map of frozen vectors.
    """
    file = files("harness.plugin.skeletons") / f"{like.replace('-', '_')}.py"
    return file.read_text(encoding="utf-8").replace("NAME", name, 1)
