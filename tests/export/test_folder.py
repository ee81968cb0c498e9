"""Every method leaves as a folder of sentence-transformers that gives the same embeddings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.evaluation.embedder import Embedder
from harness.export.folder import encoder, write_folder
from harness.plugin.kit import Kit
from tests.kits import WORDS
from tests.method_cases import CASES, IDS, values_of

KitFor = Callable[..., Kit]
PLAIN = {"simcse", "esimcse", "consert", "sbert", "diffcse", "clsr"}
"""Methods that are a transformer, a pooling and perhaps dense layers in the end"""
TEXTS = [
    "the small dog sees a red house.",
    " ".join(WORDS),
    "a",
    "The Cat likes",
    " ".join(WORDS * 4),
]


def changed(kit: Kit) -> Any:
    """The method with other weights than those that it starts with, as after a training."""
    torch.manual_seed(5)
    method = kit.build()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return method.eval()


def is_plain(name: str, options: dict[str, Any]) -> bool:
    if name == "pooling":
        return options["pooling"] in ("cls", "mean")
    # The library has no batch norm behind a pooling.
    return name in PLAIN and options.get("head") != "batchnorm"


def facts_for(kit: Kit) -> dict[str, Any]:
    declared = kit.declared
    return {
        "key": "0" * 32,
        "method": declared.name,
        "configuration": declared.config.deciding(),
        "source_digest": declared.source_digest,
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_every_method(
    kit_for: KitFor,
    tiny_encoder: Path,
    triplets: Path,
    pairs: Path,
    tmp_path: Path,
    name: str,
    options: dict[str, Any],
) -> None:
    kit = kit_for(name, **values_of(name, options, str(tiny_encoder), triplets, pairs))
    method = changed(kit)
    plain = write_folder(method, kit, facts_for(kit), tmp_path / "model")
    assert plain == is_plain(name, options)
    ours = Embedder(method, kit)(TEXTS)
    np.testing.assert_allclose(encoder(tmp_path / "model").encode(TEXTS), ours, rtol=0, atol=1e-5)
