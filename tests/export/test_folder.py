"""Every method leaves as a folder of sentence-transformers that gives the same embeddings."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from harness.data.revisions import WEIGHTS, trained_folder
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from harness.export.card import loaded_by
from harness.export.exportable import Exportable
from harness.export.folder import encoder, write_folder
from harness.manifests import MANIFEST, seal
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.rebuilt import EmbeddingKit
from harness.training.saved_state import SavedState
from tests.architectures import save
from tests.kits import WORDS, KitFor
from tests.method_cases import values_of

pytestmark = pytest.mark.slow  # sentence-transformers takes seconds to import

EXPORTED: list[tuple[str, dict[str, Any]]] = [
    ("simcse", {"masked_language_weight": 0.1}), ("simcse", {"setting": "sup"}),
    ("simcse", {"lora_rank": 2}), ("promptbert", {"lora_rank": 2}),
    ("simcse", {"setting": "sup", "head": "batchnorm"}), ("esimcse", {"queue_ratio": 2.0}),
    ("consert", {}), ("consert", {"test_pooling": "mean"}), ("sbert", {}), ("scored_pairs", {}),
    ("ct", {"negatives": 4}), ("rankcse", {}), ("sncse", {}), ("angle", {}), ("mixcse", {}),
    ("prompteol", {"setting": "sup"}), ("echo", {"setting": "sup"}), ("llm2vec", {}),
    ("whitenedcse", {}), ("pcl", {}), ("infocse", {}), ("vascl", {}), ("cotbert", {}),
    ("dclr", {}), ("arccse", {}), ("isbert", {}), ("promptbert", {}),
    ("promptbert", {"setting": "sup"}), ("dcpcse", {"mlm": True}),
    ("dcpcse", {"prompts": "shallow"}), ("dcpcse", {"prompts": "layer-shared"}),
    ("dcpcse", {"prompts": "input-layer", "setting": "sup", "hinge_weight": 10.0}),
    ("d2cse", {"cls_prompt": True}),
    ("d2cse", {"static_corruption": True, "discriminator": "copy"}),
    ("diffcse", {"objective": "corrective"}), ("diffaug", {"analysis": True}),
    ("diffaug", {"augmentation": "lora"}),
    ("diffaug", {"augmentation": "adapter", "combination": "sum"}), ("clsr", {}),
    ("flow", {"vector_dropout": False}), ("whitening", {"dimensions": 7}),
    ("pooling", {"pooling": "cls"}), ("pooling", {"pooling": "first-last"}),
    ("pooling", {"pooling": "mask"}),
]  # fmt: skip
PLAIN = {
    "angle", "arccse", "simcse", "esimcse", "consert", "sbert", "scored_pairs", "ct", "rankcse",
    "diffcse", "clsr", "infocse", "pcl", "vascl", "whitenedcse",
}  # fmt: skip
"""Methods that are a transformer, a pooling and perhaps dense layers in the end"""
TEXTS = ["the small dog sees a red house.", " ".join(WORDS), "a", "The Cat likes",
         " ".join(WORDS * 4)]  # fmt: skip


def is_plain(name: str, options: dict[str, Any]) -> bool:
    """Whether a method is plain: consert with one pooling on dev and in the tests, for example."""
    if name == "pooling":
        return options["pooling"] in ("cls", "mean")
    if name == "consert":
        return options.get("test_pooling") == "mean"
    # The library has no batch norm behind a pooling.
    return name in PLAIN and options.get("head") != "batchnorm"


def facts_of(kit: Kit) -> dict[str, Any]:
    """Facts that a folder has of its trial."""
    declared = kit.declared
    return {
        "key": "0" * 32, "method": declared.name, "configuration": declared.config.deciding(),
        "source_digest": declared.source_digest,
    }  # fmt: skip


def write(kit: Kit, folder: Path, method: Any = None) -> bool:
    """Export the method of a kit, or the given one; whether the folder is plain."""
    return write_folder(method or kit.build(), kit, facts_of(kit), folder)


def exported(kit: Kit, folder: Path) -> bool:
    """Export a method whose weights have moved, and compare it; whether the folder is plain."""
    torch.manual_seed(5)
    method = kit.build()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    plain = write(kit, folder, method.eval())
    ours = Embedder(method, kit)(TEXTS)
    np.testing.assert_allclose(encoder(folder).encode(TEXTS), ours, rtol=0, atol=1e-5)
    return plain


@pytest.mark.parametrize(("name", "options"), EXPORTED, ids=str)
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
    assert exported(kit, tmp_path / "model") == is_plain(name, options)


def test_a_map_that_is_not_in_the_cache_is_that_of_its_corpus(
    kit_for: KitFor, sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a corpus it would be made of nothing, and left in the cache for the next trials."""
    kit = kit_for("whitening", dimensions=7, corpus=str(sentences))
    [artefact] = kit.declared.artefacts
    expected = kit.artefact(artefact.name)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cold"))
    arrays = EmbeddingKit(kit.declared, kit.device).artefact(artefact.name)
    assert arrays.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values)


def test_all_methods_are_here() -> None:
    beside = {"glove", "sentence_transformer"}
    assert {name for name, _ in EXPORTED} | beside == set(registry.sources())


@pytest.mark.parametrize("family", ["tiny_roberta", "byte_roberta"])
@pytest.mark.parametrize("name", ["simcse", "promptbert"])
def test_other_tokenizers(kit_for: KitFor, tmp_path: Path, name: str) -> None:
    """A space in front of a sentence changes its first piece in tokenizers of RoBERTa's kind."""
    assert exported(kit_for(name), tmp_path / "model") == (name == "simcse")


def test_a_decoder_without_a_padding_token(
    kit_for: KitFor, triplets: Path, pairs: Path, tmp_path: Path
) -> None:
    """Its tokenizer puts nothing around a sentence either, so an empty one has no token."""
    values = values_of("llm2vec", {}, str(save("Qwen3", tmp_path / "qwen")), triplets, pairs)
    assert not exported(kit_for("llm2vec", **values), tmp_path / "model")


def test_an_encoder_that_a_trial_has_trained(
    kit_for: KitFor, tiny_encoder: Path, tmp_path: Path
) -> None:
    """Its weights leave with the folder, which needs no cache."""
    trial = "a" * 32
    weights = trained_folder(trial) / WEIGHTS
    model = kit_for("pooling").build().encoder.model
    SavedState({name: value + 0.1 for name, value in model.state_dict().items()}).write(weights)
    seal(weights.with_name(MANIFEST), [weights])
    expected = {}
    for pooling in ("mean", "last-two"):
        kit = kit_for("pooling", encoder=f"{tiny_encoder}@{trial}", pooling=pooling)
        assert write(kit, tmp_path / pooling) == (pooling == "mean")
        expected[pooling] = Embedder(kit.build(), kit)(TEXTS)
    shutil.rmtree(weights.parent)
    for pooling, vectors in expected.items():
        np.testing.assert_allclose(encoder(tmp_path / pooling).encode(TEXTS), vectors, atol=1e-5)


def test_word_vectors(kit_for: KitFor, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("small 1 0 0.5\ndog 0 2 0\nThe 0 0 4\n")
    kit = kit_for("glove", encoder="glove", vectors=vectors)
    write(kit, tmp_path / "model")
    vectors.unlink()
    found = encoder(tmp_path / "model").encode(["The small cat", "dog dog", "nothing"])
    np.testing.assert_allclose(found, [[0.5, 0, 2.25], [0, 2, 0], [0, 0, 0]], atol=1e-6)


def test_a_folder_of_the_library(kit_for: KitFor, tiny_encoder: Path, tmp_path: Path) -> None:
    """The folder stays as it is, with its own card beside ours; so does one exported before."""
    modules = [Transformer(str(tiny_encoder)), Pooling(32, "mean"), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "theirs"))
    kit = kit_for("sentence_transformer", encoder=str(tmp_path / "theirs"))
    assert write(kit, tmp_path / "ours")
    assert (tmp_path / "ours" / "ORIGINAL_README.md").is_file()
    # The names in it are those that this version writes, and older versions may not know them.
    said = loaded_by(Exportable(kit.build(), kit, facts_of(kit)))
    assert said == "The versions of sentence-transformers that load `theirs` load it"
    write(kit_for("pooling", pooling="last-two"), tmp_path / "first")
    kit = kit_for("sentence_transformer", encoder=str(tmp_path / "first"))
    assert not write(kit, tmp_path / "second")


@pytest.fixture
def folder(kit_for: KitFor, tmp_path: Path) -> Path:
    """The folder of a method that needs code of the package."""
    write(kit_for("pooling", pooling="last-two"), tmp_path / "model")
    return tmp_path / "model"


def test_sentence_transformers_itself(folder: Path, tmp_path: Path) -> None:
    """The folder imports the installed package when it is told to, and never without."""
    vectors = SentenceTransformer(str(folder), trust_remote_code=True).encode(TEXTS)
    assert (vectors == encoder(folder).encode(TEXTS)).all()
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(folder))
    encoder(folder).save(str(tmp_path / "again"))
    assert (encoder(tmp_path / "again").encode(TEXTS) == vectors).all()


@pytest.mark.parametrize(
    ("name", "options", "pooling", "dense"),
    [("simcse", {"setting": "sup"}, "cls_token", ["Dense"]), ("sbert", {}, "mean_tokens", []),
     ("pooling", {"pooling": "cls"}, "cls_token", [])],
)  # fmt: skip
def test_names_that_older_versions_load(
    kit_for: KitFor, tmp_path: Path, name: str, options: Any, pooling: str, dense: list[str]
) -> None:
    """Version 3 knows no other modules, and no other keys in their configurations."""
    folder = tmp_path / "model"
    assert write(kit_for(name, **options), folder)
    modules = json.loads((folder / "modules.json").read_text())
    kinds = ["Transformer", "Pooling", *dense]
    names = [f"sentence_transformers.models.{kind}" for kind in kinds]
    assert [each["type"] for each in modules] == names
    values = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert values.pop("word_embedding_dimension") == 32
    assert [key for key, value in values.items() if value] == [f"pooling_mode_{pooling}"]
    assert values["pooling_mode_mean_tokens"] == (pooling == "mean_tokens")  # it would be true
    for path in folder.glob("*_Dense/config.json"):
        keys = {"in_features", "out_features", "bias", "activation_function"}
        assert json.loads(path.read_text()).keys() == keys


@pytest.mark.parametrize("name", ["simcse", "promptbert"])
def test_no_folder_of_this_machine_is_named(
    kit_for: KitFor, tiny_encoder: Path, tmp_path: Path, name: str
) -> None:
    """Neither those of the configuration, nor what transformers noted of an encoder."""
    mine = tmp_path / "my folder" / "my-bert"
    shutil.copytree(tiny_encoder, mine)
    config = json.loads((mine / "config.json").read_text())
    (mine / "config.json").write_text(json.dumps({**config, "_name_or_path": str(mine)}))
    (tmp_path / "wiki.txt").write_text("\n".join(TEXTS * 8))
    kit = kit_for(name, encoder=str(mine), sentences=str(tmp_path / "wiki.txt"))
    assert exported(kit, tmp_path / "model") == (name == "simcse")
    kept = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert not [path for path in kept if str(tmp_path).encode() in path.read_bytes()]


def test_another_code_is_said_and_a_method_that_is_not_here_is_refused(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content["harness"]["source_digest"] = "another"
    path.write_text(json.dumps(content))
    encoder(folder)
    assert "the code of the method pooling is not that of" in caplog.text
    content["harness"]["method"] = "elsewhere"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="needs the method elsewhere, which is not installed here"):
        encoder(folder)


def test_a_damaged_folder(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.safetensors"):
        encoder(folder)
    for content in ("[]", "{}", "no JSON"):
        (folder / "config.json").write_text(content)
        with pytest.raises(UserError, match=r"cannot be loaded|is no exported model"):
            encoder(folder)


def test_different_embeddings_leave_nothing(kit_for: KitFor, tmp_path: Path) -> None:
    """The trial's method is not the one of its source."""
    plugin = registry.load("pooling")

    class Off(plugin.method):
        def embed(self, batch: Any) -> torch.Tensor:
            return super().embed(batch) + 1e-3

    kit = kit_for(replace(plugin, declaration=Off), pooling="last-two")
    with pytest.raises(UserError, match="other embeddings than the trial"):
        write(kit, tmp_path / "model")
    assert not list(tmp_path.iterdir())
