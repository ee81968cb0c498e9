"""RankCSE against rankcse.md."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import harness
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.trials.lookup import provide_models
from harness.trials.store import Store
from harness.trials.trial import Trial, key
from tests.architectures import save
from tests.methods.references import KitFor, batches_of, by_transformers
from tests.sweeping import write_few_pairs

losses = registry.load("rankcse").method.losses.__globals__
"""The names of the method's file"""
list_net, list_mle = losses["list_net"], losses["list_mle"]
ranking_consistency = losses["ranking_consistency"]


def softmax(row: list[float]) -> list[float]:
    total = sum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def divergence(left: list[float], right: list[float]) -> float:
    return sum(p * math.log(p / q) for p, q in zip(left, right, strict=True))


def consistency(scores: list[list[float]]) -> float:
    """Section 2, word by word."""
    total = 0.0
    for number, row in enumerate(scores):
        one, other = softmax(row), softmax([each[number] for each in scores])
        middle = [(p + q) / 2 for p, q in zip(one, other, strict=True)]
        total += (divergence(one, middle) + divergence(other, middle)) / 2
    return total / len(scores)


def net(student: list[list[float]], teacher: list[list[float]]) -> float:
    """Section 3.1."""
    total = 0.0
    for number, (ours, theirs) in enumerate(zip(student, teacher, strict=True)):
        others = [place for place in range(len(ours)) if place != number]
        wanted = softmax([theirs[place] for place in others])
        found = softmax([ours[place] for place in others])
        total -= sum(q * math.log(p) for q, p in zip(wanted, found, strict=True))
    return total / len(student)


def mle(student: list[list[float]], teacher: list[list[float]]) -> float:
    """Section 3.2: the first of the order is drawn from all, the next from those that are left."""
    total = 0.0
    for ours, theirs in zip(student, teacher, strict=True):
        left = sorted(range(len(ours)), key=lambda place: -theirs[place])
        while left:
            total -= math.log(softmax([ours[place] for place in left])[0])
            left = left[1:]
    return total / len(student)


@pytest.mark.parametrize("count", [2, 3, 9])
@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_losses_are_their_formulas(count: int, scale: float) -> None:
    torch.manual_seed(count)
    student, teacher = (scale * torch.randn(count, count, dtype=torch.float64) for _ in range(2))
    ours, theirs = student.tolist(), teacher.tolist()
    assert ranking_consistency(student).item() == pytest.approx(consistency(ours), rel=1e-10)
    assert list_net(student, teacher).item() == pytest.approx(net(ours, theirs), rel=1e-10)
    assert list_mle(student, teacher).item() == pytest.approx(mle(ours, theirs), rel=1e-10)


def test_a_single_sentence_has_nothing_to_rank() -> None:
    alone = torch.ones(1, 1)
    assert [float(each) for each in (ranking_consistency(alone), list_mle(alone, alone))] == [0, 0]
    assert float(list_net(alone, alone)) == 0


def unit(vectors: Any) -> np.ndarray:
    found = np.asarray(vectors, np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.usefixtures("equal_views")
@pytest.mark.parametrize("distillation", ["list-net", "list-mle"])
@pytest.mark.parametrize("both", [True, False])
def test_losses_of_a_batch(
    kit_for: KitFor,
    distillation: str,
    both: bool,
    byte_roberta: Path,
    tiny_roberta: Path,
    sentences: Path,
) -> None:
    """The teachers have other tokenizers than the encoder, a RoBERTa's bytes among them."""
    named = {"teacher": str(byte_roberta), "second_teacher": str(tiny_roberta) if both else None}
    kit = kit_for(
        "rankcse", **named, teacher_weight=0.3, distillation=distillation, max_length=200,
        student_temperature=0.2, teacher_temperature=0.1, batch_size=6,
    )  # fmt: skip
    torch.manual_seed(0)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    batch = next(batches)
    losses = method.losses(batch, stage)
    texts = batch["contrastive"]
    vectors = unit(method.head(method.encoder.cls(texts)).detach())
    lines = sentences.read_text().splitlines()
    read = [lines[item] for item in texts.items.tolist()]
    teachers = [unit(by_transformers(Path(name), read)) for name in filter(None, named.values())]
    similar = [each @ each.T for each in teachers]
    teacher = 0.3 * similar[0] + 0.7 * similar[1] if both else similar[0]
    student = vectors @ vectors.T
    expected = {
        "contrastive": -np.mean(
            [math.log(softmax(row)[k]) for k, row in enumerate(student / 0.05)]
        ),
        "consistency": consistency((student / 0.05).tolist()),
        "distillation": net((student / 0.2).tolist(), (teacher / 0.1).tolist())
        if distillation == "list-net"
        else mle((student / 0.2).tolist(), teacher.tolist()),
    }
    assert stage.losses == {
        "contrastive": 1.0,
        "consistency": 1.0,
        "distillation": 0.1 if distillation == "list-net" else 1.0,
    }
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_without_a_teacher_there_is_none(kit_for: KitFor) -> None:
    kit = kit_for("rankcse", distillation_weight=0, teacher="someone/not-here")
    assert kit.declared.models == [kit.config.encoder]
    assert kit.declared.artefacts == []
    assert "distillation" not in kit.declared.stages[0].losses


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, in which nothing is."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def artefacts(cache: Path) -> list[Path]:
    return [path for path in (cache / "artefacts").glob("rankcse-*") if path.is_dir()]


def vectors_of(kit: Kit) -> Tensor:
    return torch.tensor(kit.artefact("teacher")["vectors"])


def test_vectors_are_made_once_for_all_trials(
    kit_for: KitFor, cold: Path, tiny_roberta: Path, byte_roberta: Path
) -> None:
    """Also for those of another encoder; they are the same as those that are made anew."""
    teacher = {"teacher": str(byte_roberta), "second_teacher": None}
    first = vectors_of(kit_for("rankcse", **teacher))
    assert first.shape == (50, 1, 32)
    for change in (
        {"learning_rate": 0.1, "distillation": "list-net"},
        {"encoder": str(tiny_roberta)},
    ):
        assert torch.equal(vectors_of(kit_for("rankcse", **teacher, **change)), first)
    [made_once] = artefacts(cold)
    for change in ({"teacher_pooling": "mean"}, {"max_length": 6}):
        assert not torch.equal(vectors_of(kit_for("rankcse", **teacher, **change)), first)
    shutil.rmtree(made_once)
    assert torch.equal(vectors_of(kit_for("rankcse", **teacher)), first)


def test_the_contents_of_a_teacher_decide(
    kit_for: KitFor, byte_roberta: Path, tmp_path: Path
) -> None:
    """The same name with other weights is another trial, with other vectors."""
    teacher = shutil.copytree(byte_roberta, tmp_path / "teacher")
    other = save("BERT", tmp_path / "other")

    def look() -> tuple[str, Tensor]:
        values = {"encoder": "tiny-bert", "sentences": "graded-sentences", "suite": "graded"}
        trial = Trial("rankcse", {**values, "teacher": str(teacher), "second_teacher": None}, 0)
        return key(trial), vectors_of(kit_for("rankcse", teacher=str(teacher), second_teacher=None))

    (one, before), (again, same) = look(), look()
    assert one == again
    assert torch.equal(before, same)
    shutil.rmtree(teacher)
    shutil.copytree(other, teacher)
    changed, after = look()
    assert changed != one
    assert not torch.equal(before, after)


def test_a_wrong_name_is_one_sentence() -> None:
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
    for field in ("teacher", "second_teacher"):
        named = {"teacher": "tiny-bert", "second_teacher": None, field: "tiny-bret"}
        with pytest.raises(UserError, match=r'model "tiny-bret" was not found.*tiny-bert'):
            key(Trial("rankcse", {**values, **named}, 0))


@pytest.mark.slow
def test_a_trained_encoder_teaches(cold: Path, tmp_path: Path) -> None:
    """A teacher `ENCODER@KEY` comes from the store, and its vectors are not those of ENCODER."""
    suite, store = str(write_few_pairs(tmp_path)), tmp_path / "store"
    small = {
        "encoder": "tiny-bert", "suite": suite, "batch_size": 16, "max_steps": 3,
        "sentences": "graded-sentences", "precision": "fp32", "learning_rate": 1e-3,
    }  # fmt: skip
    trained = harness.run("simcse", store=store, **small)
    values = {**small, "teacher": f"tiny-bert@{trained.key}", "second_teacher": "tiny-bert"}
    shutil.rmtree(cold)
    taught = harness.run("rankcse", store=store, **values)
    assert taught.status == "finished"
    trial = Trial("rankcse", values, 0)
    assert trial.starts == [trained.key]
    provide_models(Store(store), trial)
    plugin = registry.load("rankcse")
    kit = Kit(plugin.declare(resolve(plugin, values)), torch.device("cpu"))
    ours, plain = (kit.artefact(name)["vectors"] for name in kit.config.teachers)
    assert not np.allclose(ours, plain)
    with pytest.raises(UserError, match="which trains it, has not finished"):
        provide_models(
            Store(store), Trial("rankcse", {**values, "teacher": f"tiny-bert@{'0' * 32}"}, 0)
        )
