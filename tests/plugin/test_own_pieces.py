"""A plugin whose frozen teacher reads by a tokenizer of its own, beside the student."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import harness
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.errors import UserError
from harness.export.folder import write_folder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.plugin_check.check import problems
from harness.training.feeding import made, stage_streams
from tests.sweeping import write_few_pairs

FOLLOWER = '''"""follower: a student follows a teacher with another tokenizer."""

from typing import Literal

import torch
from torch.nn import functional

from harness import plugin


class Config(plugin.TrainingConfig):
    setting: Literal["unsup"] = "unsup"
    teacher: str = "someone/teacher"


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config):
        return {"views": config.sentences}

    @classmethod
    def models(cls, config):
        return [config.encoder, config.teacher]

    @classmethod
    def stages(cls, config):
        return [config.stage("views", trains=["encoder.*", "map.*"])]

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.teacher = kit.encoder(config.teacher, dropout=0.0, own_pieces=True)
        self.read = kit.reading(config.sentences, config.teacher)
        self.map = torch.nn.Linear(self.encoder.hidden_size, self.teacher.hidden_size)

    def prepared(self, batch, stage):
        return {**batch, "teacher": self.read(batch["views"])}

    def losses(self, batch, stage):
        with torch.no_grad():
            target = self.teacher.cls(batch["teacher"])
        student = self.map(self.encoder.cls(batch["views"]))
        return {"views": functional.mse_loss(student, target)}

    def embed(self, batch):
        return self.encoder.cls(batch)
'''
VALUES = {"sentences": "graded-sentences", "precision": "fp32", "batch_size": 8}
KitOn = Callable[..., Kit]


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The plugin as a method of the working directory."""
    folder = tmp_path / "methods" / "follower"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(FOLLOWER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return str(folder)


@pytest.fixture
def kit_on(follower: str, tiny_encoder: Path) -> KitOn:
    """kit_on(**values): the kit of the plugin on two models with different tokenizers."""

    def make(**values: Any) -> Kit:
        plugin = registry.load(follower)
        given = {"encoder": "tiny-bert", "teacher": str(tiny_encoder), **VALUES, **values}
        return Kit(plugin.declare(resolve(plugin, given)), torch.device("cpu"))

    return make


@pytest.mark.slow
def test_the_contract_is_kept(follower: str) -> None:
    assert problems(follower) == []


@pytest.mark.slow
def test_each_model_reads_the_texts_by_its_own_tokenizer(kit_on: KitOn, tiny_encoder: Path) -> None:
    """Sentence by sentence through transformers, over the end of an epoch."""
    kit = kit_on(max_length=6)
    method = kit.build().eval()
    model, tokenizer = (kind.from_pretrained(tiny_encoder) for kind in (AutoModel, AutoTokenizer))
    corpus = EMBEDDED / "datasets" / GRADED / "sentences.txt"
    texts = corpus.read_text(encoding="utf-8").splitlines()
    (stage,) = kit.declared.stages
    streams = stage_streams(method, kit, stage, seed=0)
    batches = made(method, stage, streams, len(streams["views"]) - 1)
    for _ in range(3):
        batch = next(batches)
        read = batch["teacher"]
        assert torch.equal(read.items, batch["views"].items)
        assert read.epoch == batch["views"].epoch
        found = method.teacher.cls(read)
        for item, vector in zip(read.items.tolist(), found, strict=True):
            given = tokenizer(texts[item], truncation=True, max_length=6, return_tensors="pt")
            with torch.no_grad():
                expected = model.eval()(**given).last_hidden_state[0, 0]
            assert torch.allclose(vector, expected, atol=1e-5)


def test_without_being_asked_for_another_tokenizer_is_refused(kit_on: KitOn) -> None:
    kit = kit_on()
    with pytest.raises(UserError, match="must share a tokenizer"):
        kit.encoder(kit.config.teacher)


@pytest.mark.slow
def test_a_trial_trains_and_its_export_needs_no_teacher(
    follower: str, kit_on: KitOn, tiny_encoder: Path, tmp_path: Path
) -> None:
    record = harness.run(
        follower, encoder="tiny-bert", teacher=str(tiny_encoder), max_steps=3,
        suite=str(write_few_pairs(tmp_path)), store=tmp_path / "store", **VALUES,
    )  # fmt: skip
    assert record.status == "finished"
    kit = kit_on()
    facts = {
        "key": record.key, "method": "follower", "configuration": kit.config.deciding(),
        "source_digest": kit.declared.source_digest,
    }  # fmt: skip
    assert write_folder(kit.build().eval(), kit, facts, tmp_path / "model")
