"""DiffAug against diffaug.md: what trains when, which module a row meets, what is denoised."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.evaluation.embedder import Embedder
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from harness.training.parameters import trainable
from harness.training.shared_stages import StageStates
from methods.diffaug.analysis import representation_divergence, weight_convergence
from tests.families import FAMILIES
from tests.methods import references
from tests.methods.references import (
    KitFor,
    alone,
    array,
    first_batches,
    headed,
    info_nce,
    labelled,
    moved,
    nli_loss,
    watched,
)

LENGTH = 2
SMALL = {
    "prompt_length": LENGTH, "template": "the {s} a [MASK] .", "stage1_steps": 3, "max_steps": 3,
    "rank": 2,
}  # fmt: skip


build = partial(references.build, enlarged="augmentation")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished first stages are shared through the cache; here every test has its own."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))


@pytest.fixture
def small(kit_for: KitFor) -> KitFor:
    def make(**values: Any) -> Kit:
        return kit_for("diffaug", **{**SMALL, **values})

    return make


def train(kit: Kit, method: Any, evaluate: Callable[[], float] = lambda: 1.0) -> Trainer:
    trainer = Trainer(method, kit, 0, evaluate, lambda _: None)
    trainer.run()
    return trainer


def parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def ever_better() -> Callable[[], float]:
    scores = iter(range(1000))
    return lambda: float(next(scores))


@FAMILIES
def test_stage_1_trains_prefixes_and_classifier_and_nothing_else(small: KitFor) -> None:
    """Head and encoder stay the same to the last bit (trap 5: the head is random and fixed)."""
    kit = small()
    method = build(kit)
    stage = kit.declared.stages[0]
    trainable(method, stage)
    batch = {"labelled": first_batches(kit, method)["labelled"]}
    method.losses(batch, stage)["classification"].backward()
    assert (method.augmentation.table.grad.abs().amax(dim=(1, 2)) > 0).all(), "both modules"
    kit.declared.stages = [stage]
    assert parts(moved(kit, method)) == {"augmentation", "classifier"}


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize(
    ("values", "moving"),
    [
        ({}, {"encoder", "head", "augmentation", "classifier"}),
        ({"auxiliary_weight": 0.0}, {"encoder", "head", "augmentation"}),
        ({"setting": "sup", "accumulation": 1}, {"encoder", "head", "augmentation"}),
        ({"second_stage": "encoder"}, {"encoder", "head", "classifier"}),
        ({"second_stage": "augmentation"}, {"head", "augmentation", "classifier"}),
        ({"augmentation": "lora"}, {"encoder", "head", "augmentation", "classifier"}),
        (
            {"augmentation": "adapter", "second_stage": "augmentation"},
            {"head", "augmentation", "classifier"},
        ),
    ],
)
def test_what_stage_2_moves(small: KitFor, values: dict[str, Any], moving: set[str]) -> None:
    kit = small(stage1_steps=0, **values)
    assert parts(moved(kit, build(kit))) == moving


def test_stage_1_rate_decays_over_stage_2s_horizon(small: KitFor) -> None:
    """Table 5, and trap 4: 1e-3 * (1 - t / T). Stage 2 gives the prefixes the encoder's rate."""
    kit = small()
    first, second = build(kit).stages(kit.config)
    assert first.optimisation.decay_steps == 3907
    assert (first.optimisation.schedule, kit.config.warmup_ratio) == ("linear", 0)
    assert set(first.trains.values()) == {"stage1_learning_rate"}
    assert set(second.trains.values()) == {"learning_rate"}
    assert second.optimisation.decay_steps is None


def test_alpha_is_doubled_on_demand(small: KitFor) -> None:
    for released, weight in ((False, 1e-3), (True, 2e-3)):
        kit = small(auxiliary_released=released)
        assert build(kit).stages(kit.config)[1].losses["classification"] == weight


def test_stage_2_starts_from_the_last_stage_1_weights(small: KitFor) -> None:
    """The best weights on dev do not start it. The best of all are restored at the end."""
    kit = small(stage1_steps=4, max_steps=1, evaluation_interval=2, learning_rate=1e-12)
    scores = iter([9.0, 1.0, 1.0])
    method = build(kit)
    seen: list[Tensor] = []

    def evaluate() -> float:
        seen.append(method.augmentation.table.detach().clone())
        return next(scores)

    train(kit, method, evaluate)
    assert not torch.equal(seen[0], seen[1])
    assert torch.allclose(seen[1], seen[2], atol=1e-9), "stage 2 went on from the end of stage 1"
    assert torch.equal(method.augmentation.table, seen[0])


def test_released_clipping_moves_the_prefixes_far_less(small: KitFor) -> None:
    """About 1e-5 of the gradient, far below Adam's epsilon (diffaug.md, section 3.1)."""
    distances = {}
    for rule in ("clean", "released"):
        kit = small(stage1_clip=rule, stage1_steps=4)
        torch.manual_seed(0)
        method = kit.build()
        before = method.augmentation.table.detach().clone()
        kit.declared.stages = kit.declared.stages[:1]
        assert parts(moved(kit, method)) == {"augmentation", "classifier"}
        distances[rule] = (method.augmentation.table - before).norm().item()
    assert 0 < distances["released"] < distances["clean"] / 10


@FAMILIES
def test_which_module_a_row_meets(small: KitFor) -> None:
    """Premises and first views meet 0, the others 1; tests and `views: same` both (traps 1, 6)."""
    method, data, asked = asked_of(small(auxiliary_weight=1.0))
    method.losses({"labelled": data["labelled"]}, None)
    assert asked[0][1].tolist() == [0, 1, 1] * 6
    assert len(asked) == 1, "trap 7: no denoising of the NLI rows"
    asked.clear()
    method.losses({"contrastive": data["contrastive"]}, None)
    assert asked[0][1].tolist() == [0, 1] * 6
    lengths = asked[1][0] // 2
    assert asked[1][1].tolist() == [0] * lengths + [1] * lengths
    asked.clear()
    method.embed(data["contrastive"])
    assert asked == [(6, None)]
    method, data, asked = asked_of(small(views="same"))
    method.losses({"contrastive": data["contrastive"]}, None)
    assert [modules for _, modules in asked] == [None, None]


def asked_of(kit: Kit) -> tuple[Any, dict[str, TextBatch], list[tuple[int, Any]]]:
    """A method, its first batches, and the rows and modules that are asked of it from now on."""
    method = build(kit).eval()
    asked: list[tuple[int, Any]] = []
    reach = method.augmentation.reach
    method.augmentation.reach = lambda rows, modules: (
        asked.append((rows, modules)) or reach(rows, modules)
    )
    return method, first_batches(kit, method), asked


@FAMILIES
@pytest.mark.parametrize(
    ("augmentation", "shift", "expected"),
    [("prefix", True, 2 * LENGTH), ("prefix", False, 0), ("lora", True, None)],
)
def test_test_time_is_one_pass_and_the_raw_mask_state(
    small: KitFor, augmentation: str, shift: bool, expected: int | None
) -> None:
    """Trap 1: the text stands behind all rows. No head, no denoising, no second pass."""
    kit = small(augmentation=augmentation, position_shift=shift)
    method = build(kit).eval()
    encoder, head = watched(method, "encoder head")
    batch = first_batches(kit, method)["contrastive"]
    vectors = method.embed(batch)
    assert len(encoder.results) == 1
    assert head.results == []
    assert encoder.keyword(0, "position_offset") == expected
    whole = method.encoder.forward(batch, **method.augmentation.reach(6, None))
    masks = batch.input_ids == kit.tokenizer.mask_token_id
    assert (masks.sum(dim=1) == 1).all()
    assert torch.allclose(vectors, whole[masks], atol=1e-5)
    assert torch.equal(vectors, method.embed(batch)), "no dropout"


def reference_states(
    method: Any, batch: TextBatch, row: int, module: int, *, released: bool
) -> np.ndarray:
    """A row's state at the mask less that of the template alone, one row at a time.

    The template stands as around a sentence of the row's length, with the row's module. The
    released code counts the flags of one module as length, and RoBERTa's positions from 0.
    """
    length = int(batch.attention_mask[row].sum())
    ids = batch.input_ids[row, :length][None]
    begin, end = method.template.begin, method.template.end
    pieces = length - len(begin) - len(end)
    reach = method.augmentation.reach(1, torch.tensor([module]))
    alone = TextBatch(ids, torch.ones_like(ids), torch.arange(1))
    mask_id = method.tokenizer.mask_token_id
    main = method.encoder.forward(alone, **reach)[0, ids[0].tolist().index(mask_id)]
    bare = torch.tensor([[*begin, *end]])
    behind = len(begin) + pieces + (LENGTH if released else 0)
    positions = torch.tensor([[*range(len(begin)), *range(behind, behind + len(end))]])
    if released:
        first = {"bert": 0, "roberta": 2}[method.encoder.model.config.model_type]
        reach = reach | {"position_offset": 2 * LENGTH - first}
    template = TextBatch(bare, torch.ones_like(bare), torch.arange(1))
    empty = method.encoder.forward(template, positions=positions, **reach)[
        0, bare[0].tolist().index(mask_id)
    ]
    return np.asarray((main - empty).detach().numpy())


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("denoising", ["intended", "released"])
@pytest.mark.parametrize("setting", ["semisup", "sup"])
def test_contrastive_loss_with_denoising(small: KitFor, setting: str, denoising: str) -> None:
    """The noise is per module and at the sentence's own length (trap 7)."""
    kit = small(setting=setting, denoising=denoising)
    method = build(kit).double().eval()
    batch = first_batches(kit, method)["contrastive"]
    loss = method.losses({"contrastive": batch}, None)["contrastive"].item()
    texts = batch if setting == "sup" else batch.repeated(2)
    views = [
        np.stack([
            reference_states(method, texts, row, min(view, 1), released=denoising == "released")
            for row in range(view, len(texts.input_ids), texts.views)
        ])
        for view in range(texts.views)
    ]  # fmt: skip
    first, *others = (headed(method, view) for view in views)
    candidates = np.concatenate(others)
    assert len(candidates) == 6 * (texts.views - 1), "trap 9: 2N columns with hard negatives"
    assert loss == pytest.approx(info_nce(first, candidates, 0.05), rel=1e-6)


@FAMILIES
def test_classification_loss_of_triplets(small: KitFor) -> None:
    """On vectors after the head and without denoising (traps 5 and 6)."""
    kit = small()
    method = build(kit).double().eval()
    batch = first_batches(kit, method)["labelled"]
    loss = method.losses({"labelled": batch}, None)["classification"].item()
    vectors = []
    for row, ids in enumerate(alone(batch)):
        reach = method.augmentation.reach(1, torch.tensor([min(row % 3, 1)]))
        text = TextBatch(ids[None], torch.ones_like(ids[None]), torch.arange(1))
        states = method.encoder.forward(text, **reach)[0]
        vectors.append(array(states[ids == kit.tokenizer.mask_token_id][0]))
    expected = nli_loss(method.classifier, labelled(headed(method, np.array(vectors))))
    assert loss == pytest.approx(expected, rel=1e-6)
    assert method.classifier.linear.weight.shape == (2, 3 * 32)


def curves(trainer: Trainer) -> dict[str, dict[int, float]]:
    """Metric -> step -> value, of stage 1."""
    series: dict[str, dict[int, float]] = {}
    for point in trainer.outcome.history:
        if point["stage"] == "augmentation":
            series.setdefault(point["metric"], {})[point["step"]] = point["value"]
    return series


@torch.no_grad()
def by_hand(kit: Kit, method: Any, weights: dict[str, Tensor]) -> dict[str, float]:
    """The metrics at some weights, on the corpora in their own order."""
    method.load_state_dict(weights)
    method.eval()

    def corpus(stream: str, rows: int = 1) -> list[TextBatch]:
        tokens = kit.tokens(method.corpora(kit.config)[stream], method.template)
        reader = Stream(
            tokens,
            method.template,
            StreamOptions(limit=method.training_pieces, batch_size=rows, seed=5),
        )
        return list(islice(reader, len(tokens) // rows))

    def plain(batch: TextBatch, _modules: Tensor) -> Tensor:
        return method.encoder.at(batch, method.template.mask_positions(batch.attention_mask))

    texts, pairs = corpus("analysed"), corpus("labelled")
    same, entailed = (representation_divergence(method.states, part) for part in (texts, pairs))
    layers = weight_convergence(method.states, method.encoder, method.augmentation, texts)
    method.encoder.train()
    # Many draws, whose mean is compared; all sentences are read at once.
    dropout = representation_divergence(plain, corpus("analysed", len(texts)) * 10)
    return {
        "divergence": same.raw, "divergence-unit": same.unit, "convergence": layers.mean,
        "divergence-entailment": entailed.raw, "divergence-entailment-unit": entailed.unit,
        "divergence-dropout": dropout.raw, "divergence-dropout-unit": dropout.unit,
        "convergence-key-0": layers.keys[0], "convergence-key-1": layers.keys[1],
        "convergence-value-0": layers.values[0], "convergence-value-1": layers.values[1],
    }  # fmt: skip


@pytest.mark.slow
def test_analysis_follows_both_metrics_along_stage_1(small: KitFor) -> None:
    """At its start and every evaluation, on unlabelled sentences in either setting."""
    for setting in ("semisup", "sup"):
        kit = small(
            setting=setting, analysis=True, accumulation=1, stage1_steps=4, evaluation_interval=2
        )
        assert kit.declared.corpora["analysed"] == kit.config.sentences
    method = build(kit)
    weights = [{name: value.clone() for name, value in method.state_dict().items()}]

    def evaluate() -> float:
        weights.append({name: value.clone() for name, value in method.state_dict().items()})
        return 1.0

    trainer = train(kit, method, evaluate)
    series = curves(trainer)
    assert list(series["loss"]) == list(series["dev"]) == [2, 4]
    watched = {metric: values for metric, values in series.items() if metric not in ("loss", "dev")}
    for number, step in enumerate((0, 2, 4)):
        expected = by_hand(kit, method, weights[number])
        assert watched.keys() == expected.keys()
        for metric, value in expected.items():
            assert watched[metric][step] == pytest.approx(
                value, rel=0.1 if "dropout" in metric else 1e-4
            ), metric
    assert len(set(watched["divergence"].values())) == 3
    assert series["divergence-dropout"][0] > 0.01
    second = {
        point["metric"] for point in trainer.outcome.history if point["stage"] == "contrastive"
    }
    assert second == {"loss", "dev"}, "stage 2 is not analysed"


@pytest.mark.slow
def test_analysis_changes_no_weight(small: KitFor) -> None:
    """Its trials share no stage with other trials, because their history differs."""
    trained = {}
    for analysis in (False, True):
        kit = small(analysis=analysis, evaluation_interval=1)
        method = build(kit)
        trainer = train(kit, method, ever_better())
        kept = [point for point in trainer.outcome.history if point["metric"] in ("loss", "dev")]
        trained[analysis] = (method.state_dict(), kept)
        assert "analysis" in (method.stages(kit.config)[0].shared or ())
        assert (
            len(trainer.outcome.history) > len(kept)
            if analysis
            else trainer.outcome.history == kept
        )
    (plain, kept), (analysed, kept_too) = trained.values()
    assert plain.keys() == analysed.keys()
    assert all(torch.equal(plain[name], analysed[name]) for name in plain)
    assert kept == kept_too


@pytest.mark.parametrize(
    ("field", "value"),
    [("combination", "first"), ("denoising", "released"), ("second_stage", "encoder")],
)
def test_trials_that_share_stage_1_have_its_dev_scores(
    small: KitFor, field: str, value: str
) -> None:
    """A state of the stage has dev scores, which another trial takes over."""
    kits = [small(augmentation="adapter", **given) for given in ({}, {field: value})]
    keys = {
        StageStates.identity(kit.declared.stages[0], kit, seed=0, interval=2, scored="a suite")
        for kit in kits
    }
    texts = ["the cat sat", "a dog"]
    one, other = (Embedder(build(kit), kit)(texts, dev=True) for kit in kits)
    assert (len(keys) == 1) == np.array_equal(one, other)


def test_analysis_is_of_the_same_first_items_in_all_trials(small: KitFor, tmp_path: Path) -> None:
    """The first thousand, whatever share of the labels a trial has."""
    files = {"sentences": tmp_path / "a.txt", "triplets": tmp_path / "a.csv"}
    files["sentences"].write_text("a cat\n" * 1100)
    files["triplets"].write_text("sent0,sent1,hard_neg\n" + "a cat,a dog,a bird\n" * 1100)
    for values in ({}, {"label_fraction": 0.5, "subset": 2}):
        kit = small(analysis=True, **{name: str(path) for name, path in files.items()}, **values)
        analysis = build(kit).analysis
        for sample, views in ((analysis.sentences, 1), (analysis.triplets, 3)):
            items = sorted(int(item) for batch in sample for item in batch.items)
            assert items == list(range(1000))
            assert {batch.views for batch in sample} == {views}
