"""A plugin with two further encoders: one trains and embeds, a frozen one is for training alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import harness
from harness.data.weight_contents import parameter_count
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from harness.export.folder import encoder, write_folder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.plugin_check.check import problems
from harness.sweeps.memory import least_memory
from harness.training.saved_state import SavedState
from harness.trials.store import Store
from harness.trials.trial import Trial, key
from tests.architectures import save
from tests.plugin.test_operations import planned_shares
from tests.sweeping import write_few_pairs

TWINS = '''"""twins: two encoders of any architecture agree, and one follows a frozen third."""

import torch
from torch.nn import functional

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.plugin import Pass, Products


class Config(plugin.TrainingConfig):
    second: str = "someone/second"
    teacher: str = "someone/teacher"


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config):
        return {"views": config.sentences}

    @classmethod
    def models(cls, config):
        return [config.encoder, config.second, config.teacher]

    @classmethod
    def stages(cls, config):
        trained = ["encoder.*", "second.*", "map.*"]
        return [config.stage("views", trains=trained, losses={"agree": 1.0, "follow": 1.0})]

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.encoder, self.second = kit.encoder(), kit.encoder(config.second)
        self.teacher = kit.encoder(config.teacher, dropout=0.0)
        width = self.encoder.hidden_size
        self.map = torch.nn.Linear(self.second.hidden_size, width)
        self.follow = torch.nn.Linear(width, self.teacher.hidden_size)
        self.follow.requires_grad_(False)

    def losses(self, batch, stage):
        texts = batch["views"].repeated(2)
        first, second = self.encoder.cls(texts), self.map(self.second.cls(texts))
        with torch.no_grad():
            target = self.teacher.cls(texts)
        follow = functional.mse_loss(self.follow(first), target)
        return {"agree": info_nce(first, second, temperature=0.05), "follow": follow}

    def embed(self, batch):
        return self.encoder.cls(batch) + self.map(self.second.cls(batch))


class Passes(plugin.Passes[Config]):
    def step(self, stage):
        config = self.config
        return [
            Pass(2, one=True),
            Pass(2, module="second", model=config.second, one=True),
            Pass(2, module="teacher", model=config.teacher, one=True, backward=False),
        ]
'''
Models = dict[str, str]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Three architectures with the tokenizer of the embedded model, and one with another."""
    folder = tmp_path_factory.mktemp("models")
    sizes = {"num_hidden_layers": 4, "hidden_size": 128, "intermediate_size": 512}
    narrow = {"n_layers": 3, "dim": 64, "hidden_dim": 256}
    return {
        "encoder": str(save("BERT", folder / "bert", **sizes)),
        "second": str(save("DistilBERT", folder / "distilbert", **narrow)),
        "teacher": str(save("RoBERTa", folder / "roberta", seed=1, **{**sizes, "hidden_size": 96})),
    }


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The plugin as a method of the working directory."""
    folder = tmp_path / "methods" / "twins"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(TWINS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return str(folder)


@pytest.fixture
def kit_on(twins: str, models: Models) -> Callable[..., Kit]:
    """kit_on(**values): the kit of the plugin on these models."""

    def make(**values: Any) -> Kit:
        plugin = registry.load(twins)
        small = {"sentences": "graded-sentences", "precision": "fp32", "batch_size": 16}
        config = resolve(plugin, {**models, **small, **values})
        return Kit(plugin.declare(config), torch.device("cpu"))

    return make


@pytest.mark.slow
def test_the_contract_is_kept_where_the_models_are_not_here(twins: str) -> None:
    assert problems(twins) == []


def test_a_model_that_is_not_declared_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "undeclared.py"
    undeclared = TWINS.replace("config.second, config.teacher]", "config.second]")
    path.write_text(undeclared, encoding="utf-8")
    [problem] = problems(str(path))
    assert problem.endswith(
        'loads "someone/teacher", which models() does not have, so that no key would know it; add '
        "it there"
    )


def test_what_cannot_read_the_rows_is_one_sentence(
    twins: str, kit_on: Callable[..., Kit], tiny_encoder: Path, models: Models, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="must share a tokenizer, but word piece"):
        kit_on(second=str(tiny_encoder)).build()
    few = save("BERT", tmp_path / "few", max_position_embeddings=16)
    with pytest.raises(UserError, match="has room for 16 tokens, and max_length is 32; lower it"):
        kit_on(teacher=str(few)).build()
    given = {"sentences": "graded-sentences", "suite": "graded", "second": "tiny-bret"}
    with pytest.raises(UserError, match='model "tiny-bret" was not found'):
        key(Trial(twins, {**models, **given}, 0))


def test_low_rank_changes_are_those_of_the_encoder(kit_on: Callable[..., Kit]) -> None:
    method = kit_on(lora_rank=2).build()
    changed = {name.split(".")[0] for name, _ in method.named_parameters() if ".lora_" in name}
    assert changed == {"encoder"}


@pytest.mark.slow
def test_what_is_planned_is_what_a_step_computes(kit_on: Callable[..., Kit]) -> None:
    assert planned_shares(kit_on()) == {"views": pytest.approx(1, rel=0.05)}


def test_memory_counts_them(kit_on: Callable[..., Kit], models: Models) -> None:
    """Two models have gradients and two moments of AdamW, the teacher has neither."""
    [least] = least_memory(kit_on().declared)
    sizes = {field: 4 * parameter_count(name) for field, name in models.items()}
    assert least.weights == 4 * (sizes["encoder"] + sizes["second"]) + sizes["teacher"]
    [without] = least_memory(kit_on(teacher="someone/not-here").declared)
    assert without.weights == 4 * (sizes["encoder"] + sizes["second"])


@pytest.mark.slow
def test_a_trial_keeps_and_exports_what_it_needs(
    twins: str, models: Models, kit_on: Callable[..., Kit], tmp_path: Path
) -> None:
    """Weights of both that train, and a folder without the teacher that needs no other folder."""
    suite, store = write_few_pairs(tmp_path), Store(tmp_path / "store")
    values = {"sentences": "graded-sentences", "precision": "fp32", "batch_size": 16}
    record = harness.run(
        twins, store=store.folder, suite=str(suite), max_steps=3, learning_rate=1e-3, **models,
        **values,
    )  # fmt: skip
    assert record.status == "finished"
    kept = SavedState.read(store.kept_weights(record.key)).weights
    assert {name.split(".")[0] for name in kept} == {"encoder", "second", "map"}
    kit = kit_on()
    method = kit.build()
    method.load_state_dict(kept, strict=False)
    facts = {
        "key": record.key, "method": "twins", "configuration": kit.config.deciding(),
        "source_digest": kit.declared.source_digest,
    }  # fmt: skip
    assert not write_folder(method.eval(), kit, facts, tmp_path / "model")
    written = load_file(tmp_path / "model" / "model.safetensors")
    assert {name.split(".")[0] for name in written} == {"encoder", "second", "map", "follow"}
    texts = ["the old man reads", "a small dog"]
    ours = Embedder(method, kit)(texts)
    for name in models.values():
        Path(name).rename(f"{name}-gone")
    try:
        theirs = encoder(tmp_path / "model").encode(texts)
    finally:
        for name in models.values():
            Path(f"{name}-gone").rename(name)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)
