"""Tokenizers are compared by what they do, and belong to the embeddings of their model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from harness.data.hub import EMBEDDED, model_shape
from harness.data.tokens import check_embedded, load_tokenizer, tokenised, tokenizer_digest
from harness.errors import UserError
from harness.evaluation.embedder import check_trains
from tests.kits import KitFor

CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "lower case": lambda content: content["normalizer"].update(lowercase=False),
    "two words change places": lambda content: _swap(content["model"]["vocab"]),
    "an added token": lambda content: content["added_tokens"].append(
        content["added_tokens"][0] | {"id": 200, "content": "ab", "special": False}
    ),
    "another continuation": lambda content: content["model"].update(continuing_subword_prefix="@"),
}
"""Differences between two tokenizers, as they stand in their serialisation"""


def _swap(vocabulary: dict[str, int]) -> None:
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]


def changed(change: str, encoder: Path, folder: Path) -> Path:
    """A copy of an encoder whose tokenizer has one of CHANGES."""
    shutil.copytree(encoder, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    CHANGES[change](content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def with_vocabulary(folder: Path, *, added: dict[str, int] | None = None) -> Path:
    """The embedded model, whose word pieces are in other files than tokenizer.json."""
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder)
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    (folder / "tokenizer.json").unlink()
    lines = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    if added:
        (folder / "added_tokens.json").write_text(json.dumps(added))
    return folder


def test_another_rule_is_another_identity(tiny_encoder: Path, tmp_path: Path) -> None:
    folders = [changed(change, tiny_encoder, tmp_path / change) for change in CHANGES]
    folders.append(Path(shutil.copytree(tiny_encoder, tmp_path / "copy")))
    digests = [tokenizer_digest(load_tokenizer(str(folder))) for folder in (*folders, tiny_encoder)]
    assert len(set(digests)) == len(CHANGES) + 1
    assert digests[-2] == digests[-1], "equal tokenizers share word pieces"


def test_word_pieces_are_not_shared_over_added_tokens(tmp_path: Path) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("zork is here\nand zork\n")
    rows = []
    for name, added in (("plain", None), ("added", {"zork": 729})):
        tokenizer = load_tokenizer(str(with_vocabulary(tmp_path / name, added=added)))
        rows.append(tokenised(str(corpus), tokenizer).read()["ids0"].tolist())
        whole = tokenizer.backend_tokenizer.encode(
            "zork is here and zork", add_special_tokens=False
        )
        assert rows[-1] == whole.ids
    assert rows[0] != rows[1]


def test_more_word_pieces_than_embeddings_are_refused(tmp_path: Path) -> None:
    folder = str(with_vocabulary(tmp_path / "model", added={"zork": 729}))
    with pytest.raises(UserError, match=r"730 word pieces.* 729 word embeddings"):
        check_embedded(folder, load_tokenizer(folder), 729)
    check_embedded(folder, load_tokenizer(folder), 730)


@pytest.mark.parametrize("method", ["diffcse", "d2cse"])
def test_a_generator_with_another_tokenizer_is_refused(
    method: str, kit_for: KitFor, tiny_encoder: Path, tmp_path: Path
) -> None:
    for change, why in (
        ("two words change places", r"word piece \d+ is"),
        ("lower case", "the one cuts"),
    ):
        other = str(changed(change, tiny_encoder, tmp_path / change))
        with pytest.raises(UserError, match=f"must share a tokenizer, but {why}"):
            kit_for(method, encoder=str(tiny_encoder), generator=other).build()


@pytest.mark.parametrize(
    ("method", "fields"),
    [("promptbert", {}), ("diffcse", {}), ("diffcse", {"objective": "masked-language"}),
     ("d2cse", {}), ("simcse", {"masked_language_weight": 0.1}), ("dcpcse", {"mlm": True})],
)  # fmt: skip
def test_masking_without_a_mask_token_is_refused(
    method: str, fields: dict[str, Any], kit_for: KitFor, tiny_encoder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "maskless"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("mask_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="needs a mask token"):
        kit_for(method, encoder=str(folder), **fields).build()


def test_texts_beyond_the_positions_are_refused(kit_for: KitFor, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(f"{'dog ' * 100}\nshort\n")
    positions = int(model_shape("tiny-bert")["max_position_embeddings"])
    values = {"encoder": "tiny-bert", "sentences": str(tmp_path / "long.txt")}
    kit = kit_for("simcse", **values, max_length=positions + 10)
    with pytest.raises(UserError, match=f"{positions + 10} tokens .* room for {positions}"):
        check_trains(kit.build(), kit)
    fits = kit_for("simcse", **values, max_length=positions)
    check_trains(fits.build(), fits)
