"""Flash attention as on a GPU: torch's operator for it computes row by row here."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

_rates: list[float] = []


def _row_by_row(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    longest_query: int,
    longest_key: int,
    rate: float,
    *_: bool,
    scale: float,
) -> tuple[Any, ...]:
    """Attention in float64, with torch's order of arguments, which it has no kernel for here."""
    assert query_ends.dtype == key_ends.dtype == torch.int32
    assert (query_ends[-1], key_ends[-1]) == (len(query), len(key))
    assert longest_query >= query_ends.diff().max()
    assert longest_key >= key_ends.diff().max()
    _rates.append(rate)
    parts = [
        part.double().tensor_split(rows[1:-1].long())
        for part, rows in ((query, query_ends), (key, key_ends), (value, key_ends))
    ]
    outputs = []
    for asks, keys, values in zip(*parts, strict=True):
        shares = torch.einsum("qhs,khs->hqk", asks, keys * scale).softmax(-1)
        outputs.append(torch.einsum("hqk,khs->qhs", functional.dropout(shares, rate), values))
    return torch.cat(outputs).to(query.dtype), *(query.new_empty(0) for _ in range(4))


_kernels = torch.library.Library("aten", "IMPL", "AutogradCPU")
_kernels.impl("_flash_attention_forward", _row_by_row)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """torch says that flash attention runs here; the rates of its dropout, call by call."""
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda _: True)
    _rates.clear()
    return _rates
