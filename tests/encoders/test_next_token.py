"""The head of decoders, and the loss over tokens, against transformers in float64."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM

from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder
from harness.encoders.next_token import NextTokenHead
from harness.errors import UserError
from harness.losses.masked_language import next_token_loss
from tests.architectures import SIZES, save

IDS = torch.randint(5, 90, (4, 9), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(9) < torch.tensor([[9], [4], [7], [2]])).long()
BATCH = TextBatch(IDS, MASK, torch.arange(4))


def check_loss(folder: Path, **options: Any) -> None:
    """The loss and its gradient, where all real tokens are predicted."""
    encoder, head = Encoder(str(folder)).double().eval(), NextTokenHead(str(folder), **options)
    states = encoder(BATCH).requires_grad_()
    loss = next_token_loss(head.double(), states, IDS, MASK.bool())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    labels = IDS.masked_fill(MASK == 0, -100)
    output = model(input_ids=IDS, attention_mask=MASK, labels=labels)
    # The loss is float32 in both, and so are the norms of Gemma.
    assert loss.item() == pytest.approx(output.loss.item(), rel=1e-6)
    head_gradient = torch.autograd.grad(loss, head.weight)[0]
    assert head_gradient.abs().sum() > 0
    with torch.no_grad():
        assert torch.allclose(head(states), output.logits, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["Llama", "Qwen2", "Gemma", "Gemma 3", "Mistral"])
def test_the_loss_of_a_causal_language_model(name: str, tmp_path: Path, tied: bool) -> None:
    check_loss(save(name, tmp_path / "model", tie_word_embeddings=tied))


def test_capped_logits(tmp_path: Path) -> None:
    """Gemma 2 has them, and tokens of a width that is not that of its heads."""
    own = {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "vocab_size": 100}
    config = Gemma2Config(**{**SIZES, **own, "final_logit_softcapping": 0.5})
    torch.manual_seed(0)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    check_loss(tmp_path)


def test_only_chosen_positions_count_and_never_the_first(tmp_path: Path) -> None:
    head = NextTokenHead(str(save("Llama", tmp_path / "model"))).double()
    states = torch.randn(4, 9, head.weight.shape[1], dtype=torch.float64)
    chosen = torch.zeros(4, 9, dtype=torch.bool)
    chosen[0, 0] = chosen[0, 3] = chosen[2, 6] = True
    terms = []
    for row, place in ((0, 3), (2, 6)):
        logits = head.weight @ states[row, place - 1]
        terms.append(logits.exp().sum().log() - logits[IDS[row, place]])
    expected = torch.stack(terms).mean().item()
    assert next_token_loss(head, states, IDS, chosen).item() == pytest.approx(expected, rel=1e-6)


def test_what_is_stored_in_bf16_stays_so_where_it_may(tmp_path: Path) -> None:
    folder = save("Llama", tmp_path / "model", dtype="bfloat16")
    for as_stored, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        head = NextTokenHead(str(folder), as_stored=as_stored)
        assert head.weight.dtype == dtype
        assert head(torch.randn(2, 3, head.weight.shape[1])).shape == (2, 3, len(head.weight))


def test_heads_that_are_not_understood_are_refused(tmp_path: Path) -> None:
    scaled = save("Llama", tmp_path / "scaled", logit_scale=0.5)
    with pytest.raises(UserError, match="how it makes logits is not known; those of Llama, Qwen"):
        NextTokenHead(str(scaled))
    Encoder(str(save("Llama", tmp_path / "model"))).model.save_pretrained(tmp_path / "bare")
    with pytest.raises(UserError, match=r"has no head of a language model \(missing: lm_head"):
        NextTokenHead(str(tmp_path / "bare"))
