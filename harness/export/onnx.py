"""A plain exported model as ONNX: word pieces in, sentence vectors out."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from harness.errors import explained, extra
from harness.export.probes import PROBES, check_equal

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FILE = "onnx/model.onnx"
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"
ONE_FILE = 2**30
"""Bytes of weights up to which they are in the one file; protobuf ends at twice as many"""


def check_onnx() -> None:
    """Raises UserError when what writes and reads ONNX is not installed."""
    with extra("onnx", "--onnx"):
        import onnx as _onnx
        import onnxruntime as _runtime
        import onnxscript as _script
    del _onnx, _runtime, _script


def write_onnx(model: "SentenceTransformer", wanted: np.ndarray, folder: Path) -> None:
    """Add FILE to the folder of a plain model, and compare it on PROBES.

    wanted: the vectors of the trial. Raises UserError when the model cannot be written as ONNX, and
    when its vectors differ.
    """
    import onnxruntime

    whole = _Whole(model).eval()
    inputs = _pieces(model, list(PROBES[:3]))
    path = folder / FILE
    path.parent.mkdir()
    size = sum(each.numel() * each.element_size() for each in whole.parameters())
    with explained("the model cannot be written as ONNX: "), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, length = torch.export.Dim("rows"), torch.export.Dim("length")
        torch.onnx.export(
            whole,
            inputs,
            path,
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=({0: rows, 1: length}, {0: rows, 1: length}),
            dynamo=True,
            external_data=size > ONE_FILE,
            verbose=False,
        )
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        given = zip(INPUTS, _pieces(model, list(PROBES)), strict=True)
        (found,) = session.run([OUTPUT], {name: value.numpy() for name, value in given})
    check_equal(wanted, found, "the model in ONNX")


class _Whole(nn.Module):
    """The transformer with all that stands behind it."""

    def __init__(self, model: "SentenceTransformer") -> None:
        super().__init__()
        first, *behind = model
        # The other ways to compute attention choose by the values of the mask.
        first.model.set_attn_implementation("eager")
        self.model, self.behind = first.model, nn.ModuleList(behind)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(rows, length) twice -> (rows, hidden)."""
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        features = {"token_embeddings": states, "attention_mask": attention_mask}
        for module in self.behind:
            features = module(features)
        vectors: Tensor = features[OUTPUT]
        return vectors


def _pieces(model: "SentenceTransformer", texts: list[str]) -> tuple[Tensor, Tensor]:
    """The two inputs for texts, on the CPU."""
    found = model.preprocess(texts)
    return found["input_ids"], found["attention_mask"]
