"""The least memory of each worker, and configurations that cannot fit; no GPU, no training."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    RobertaConfig,
)

from harness.errors import NotHere, UserError
from harness.plugin.kit import Kit
from harness.sweeps.machines import Gpu, Machine
from harness.sweeps.memory import (
    PUBLISHED_WEIGHTS,
    LeastMemory,
    Room,
    check_fits,
    largest_room,
    least_memory,
    most_memory,
)
from harness.training.engines import library
from harness.training.parameters import count, trainable
from harness.trials.trial import Trial

WEIGHTS = 4 * 506_752
"""Bytes of tiny-bert, with float32 weights"""
SENTENCES = 6000
"""Items of the corpus graded-sentences"""
H100, A10 = Gpu("NVIDIA H100 80GB HBM3", 81559), Gpu("NVIDIA A10", 23028)
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16} | {
    "intermediate_size": 4096
}
ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
QWEN = {
    "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "intermediate_size": 4864,
}  # fmt: skip


def trial(method: str, **values: Any) -> Trial:
    given = {"encoder": "tiny-bert", "suite": "graded", "batch_size": 64}
    return Trial(method, {**given, **values}, 0)


def simcse(**values: Any) -> Trial:
    return trial("simcse", sentences="graded-sentences", **values)


def frozen(**values: Any) -> Trial:
    return trial("dcpcse", sentences="graded-sentences", **values)


def test_least_memory_of_a_trained_encoder() -> None:
    """Weights, gradients, two moments of AdamW; one batch has 64 x 64 cosines and logits."""
    [least] = least_memory(simcse().declared)
    assert least == LeastMemory(4 * WEIGHTS, WEIGHTS + 2 * 4 * 64**2, 64)
    [least] = least_memory(simcse(batch_size=10**6).declared)
    assert least.items == SENTENCES, "a batch is not larger than its corpus"
    # Frozen weights have no gradient: the encoder and the generator of D2CSE, which is not loaded
    # when it has written before.
    for static, models in ((False, 2), (True, 1)):
        values = {"generator": "tiny-bert", "static_corruption": static}
        [least] = least_memory(trial("d2cse", sentences="graded-sentences", **values).declared)
        assert least.weights == models * WEIGHTS


ZERO, OPTIMISER = {"engine": "deepspeed"}, {"offload_optimiser": True}
BOTH = OPTIMISER | {"offload_parameters": True}


@pytest.mark.parametrize(
    ("values", "trained", "held", "offloaded"),
    [
        ({"engine": "ddp"}, 1 + 1 + 2, 1, 0),
        ({"engine": "fsdp"}, 1 / 8 + 1 / 8 + 2 / 8, 1 / 8, 0),
        (ZERO | {"zero": 1, "precision": "fp32"}, 1 + 1 + 3 / 8, 1, 0),
        (ZERO | {"zero": 2, "precision": "fp32"}, 1 + 1 / 8 + 3 / 8, 1, 0),
        (ZERO | {"zero": 1}, 1 / 2 + 1 + 3 / 8, 1 / 2, 0),
        (ZERO | {"zero": 2}, 1 / 2 + 1 / 8 + 3 / 8, 1 / 2, 0),
        (ZERO | {"zero": 2, "chunk_size": 8}, 1 + 1 / 8 + 3 / 8, 1, 0),
        (ZERO | {"zero": 3}, 1 / 8 + 1 / 8 + 2 / 8, 1 / 8, 0),
        (ZERO | {"zero": 1, "precision": "fp32"} | OPTIMISER, 1 + 1, 1, 5 / 8),
        (ZERO | {"zero": 2, "precision": "fp32"} | OPTIMISER, 1, 1, 5 / 8),
        (ZERO | {"zero": 1, "accumulation": 2} | OPTIMISER, 1 / 2 + 1, 1 / 2, 9 / 16),
        (ZERO | {"zero": 2} | OPTIMISER, 1 / 2, 1 / 2, 9 / 16),
        (ZERO | {"zero": 2, "accumulation": 2} | OPTIMISER, 1, 1, 5 / 8),
        (ZERO | {"zero": 3} | OPTIMISER, 1 / 8, 1 / 8, 4 / 8),
        (ZERO | {"zero": 3} | BOTH, 0, 0, 5 / 8),
        (ZERO | {"zero": 3, "offload_parameters": True}, 1 / 8 + 2 / 8, 0, 1 / 8),
    ],
    ids=str,
)
def test_each_worker_has_its_shard(
    values: dict[str, Any], trained: float, held: float, offloaded: float
) -> None:
    """Bytes of weights, gradients, moments and copy; zero 1 and 2 read bf16 beside the copy."""
    [least] = least_memory(simcse(workers=8, **values).declared)
    assert least.weights == trained * WEIGHTS
    # Every worker compares all items of the batch, which is that of all workers together.
    assert least.batch == held * WEIGHTS + 2 * 4 * 64**2
    assert least.offloaded == offloaded * WEIGHTS
    [least] = least_memory(frozen(workers=8, **values).declared)
    held = 1 if values.get("zero", 1) < 3 and "fsdp" not in values.values() else held
    assert least.weights == held * WEIGHTS
    assert least.offloaded == (WEIGHTS / 8 if values.get("offload_parameters") else 0)


@pytest.mark.slow  # it imports DeepSpeed
@pytest.mark.process  # DeepSpeed asks the machine for numactl
def test_model_states_beside_the_estimators_of_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    """P weights and 8 GPUs of one machine. DeepSpeed counts weights of 2 bytes, gradients of 2
    and of 4, weights of 4 and 8 bytes of moments; here gradients have 4 bytes only, and so have the
    weights of zero 3, which has no copy. Its estimates for the host have half as much for buffers
    on top."""
    monkeypatch.setenv("LOCAL_RANK", "0")  # which DeepSpeed would leave for other tests
    library()
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    weights, _ = PUBLISHED_WEIGHTS["huggyllama/llama-7b"]

    def differences(theirs: tuple[int, ...], **values: Any) -> tuple[float, float]:
        """Bytes for each weight, ours minus theirs: of a GPU, and of the host."""
        values |= {"workers": 8, "precision": "bf16"}
        given = simcse(encoder="huggyllama/llama-7b", **ZERO, **values)
        [least] = least_memory(given.declared)
        host, gpu = 8 * least.offloaded - theirs[0] / 1.5, least.weights - theirs[1]
        return pytest.approx(gpu / weights, abs=1e-6), pytest.approx(host / weights, abs=1e-6)

    two = partial(estimate_zero2_model_states_mem_needs, weights, 8, 1)
    three = partial(estimate_zero3_model_states_mem_needs, weights, 0, 8, 1)
    # What an estimator counts on the host without offloading are the models as they are loaded.
    assert differences((0, two(False)[1]), zero=2) == ((16 - 18) / 8, 0)
    assert differences(two(True), zero=2, **OPTIMISER) == (0, 18 - 4 * 8)
    assert differences((0, three(False, False)[1]), zero=3) == ((16 - 18) / 8, 0)
    assert differences(three(True, False), zero=3, **OPTIMISER) == (2 / 8, 16 - 16)
    assert differences(three(True, True), zero=3, **BOTH) == (0, 20 - 18)


def test_published_sizes_are_those_of_transformers() -> None:
    configs: dict[str, PretrainedConfig] = {
        "bert-base-uncased": BertConfig(), "bert-large-uncased": BertConfig(**LARGE),
        "roberta-base": RobertaConfig(**ROBERTA),
        "roberta-large": RobertaConfig(**ROBERTA, **LARGE),
        "mistralai/Mistral-7B-v0.1": MistralConfig(), "huggyllama/llama-7b": LlamaConfig(),
        "Qwen/Qwen2.5-0.5B": Qwen2Config(**QWEN),
    }  # fmt: skip
    for encoder, config in configs.items():
        with torch.device("meta"):
            named = AutoModel.from_config(config).named_parameters()
        weights = sum(value.numel() for path, value in named if not path.startswith("pooler."))
        assert PUBLISHED_WEIGHTS[encoder][0] == weights


def test_a_decoder_that_is_not_here_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen weights are bf16 as they are stored, unless the precision is fp32."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    values = {"encoder": "mistralai/Mistral-7B-v0.1", "engine": "deepspeed", "zero": 3}
    given = frozen(workers=8, **values)
    assert most_memory([given.declared]) == pytest.approx(7.11e9 * 2 / 8, rel=1e-3)
    exact = frozen(workers=8, precision="fp32", **values)
    assert most_memory([exact.declared]) == pytest.approx(7.11e9 * 4 / 8, rel=1e-3)
    unknown = simcse(encoder="someone/not-here")
    assert most_memory([unknown.declared]) is None
    with pytest.raises(NotHere):
        least_memory(unknown.declared)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simcse", "esimcse", "dcpcse", "consert", "diffaug", "sbert"])
def test_no_method_needs_less(method: str) -> None:
    """Memory that a method holds after a step is not less than the estimate of its weights."""
    declared = Trial(method, {"encoder": "tiny-bert", "suite": "graded"}, 0).declared
    built = declared.method(declared.config, Kit(declared, torch.device("cpu")))
    for stage, least in zip(declared.stages, least_memory(declared), strict=True):
        trainable(built, stage)
        held = count(built, trained=False) + 3 * count(built, trained=True)
        assert 0 < least.weights <= 4 * held


def refused(trial: Trial, share: float) -> str:
    """The sentence that refuses a trial where a GPU has room for a share of WEIGHTS."""
    with pytest.raises(UserError) as error:
        check_fits(trial, Room("the largest GPU (A) has", share * WEIGHTS))
    return str(error.value)


def test_a_trial_that_cannot_fit_is_told_the_first_stage_that_would() -> None:
    """Four workers need, by zero 1, 2 and 3, 2.75, 2 and 1 times the bytes of the weights."""
    check_fits(simcse(), None)  # not known
    check_fits(simcse(), Room("the largest machine has", 4 * WEIGHTS))
    sharded = simcse(engine="deepspeed", zero=3, workers=4)
    check_fits(sharded, Room("the largest machine has", WEIGHTS))
    for share, remedy in (
        (2.8, "engine=deepspeed with zero=1 would need at least"),
        (2.1, "engine=deepspeed with zero=2 would need at least"),
        (1.1, "engine=deepspeed with zero=3 would need at least"),
        (0.9, "no ZeRO stage would fit: set more workers, or choose a smaller encoder"),
    ):
        sentence = refused(simcse(engine="ddp", workers=4, precision="fp32"), share)
        assert sentence.startswith("simcse unsup tiny-bert seed 0 cannot run: the weights of its")
        assert " in each of its 4 workers, and the largest GPU (A) has " in sentence
        assert remedy in sentence
    assert "no ZeRO stage helps a single worker: set workers" in refused(simcse(), 3)
    whole = trial("diffaug", stage1_clip="released", engine="ddp", workers=4)
    assert "it needs whole gradients" in refused(whole, 0.9)
    moved = trial("esimcse", sentences="graded-sentences", engine="ddp", workers=4)
    assert "zero=3" not in refused(moved, 1.1), "zero 3 would shard the momentum encoder"
    pooling = Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, 0)
    assert refused(pooling, 0.9).endswith("; choose a smaller encoder")
    # A batch of the whole corpus; of each item's similarity there are two numbers.
    whole, needed = simcse(batch_size=SENTENCES), WEIGHTS + 2 * 4 * SENTENCES**2
    check_fits(whole, Room("the largest machine has", needed))
    sentence = refused(whole, 0.99 * needed / WEIGHTS)
    assert "the similarities of a batch of 6000 items and the models take 0.3 GiB, and" in sentence
    assert "(A) has 0.3 GiB; choose a smaller batch_size" in sentence


def test_what_is_offloaded_has_to_fit_the_machines() -> None:
    """Four workers offload 5 times the bytes of the weights; on CPUs they keep all of it."""
    exact = {"precision": "fp32", "batch_size": 8}
    trial = simcse(engine="deepspeed", workers=4, **exact, **OPTIMISER)
    gpu = "the largest GPU (A) has"
    check_fits(trial, Room(gpu, 2 * WEIGHTS, host=5 * WEIGHTS))
    check_fits(trial, Room(gpu, 2 * WEIGHTS, host=0))  # not known
    with pytest.raises(UserError, match=r"workers offload takes .* the machines have .*; offload"):
        check_fits(trial, Room(gpu, 2 * WEIGHTS, host=4.9 * WEIGHTS))
    with pytest.raises(UserError, match=r"their training needs take"):
        check_fits(trial, Room("the largest machine has", 1.9 * WEIGHTS))


def test_room_is_that_of_the_largest() -> None:
    machines = [Machine(4 * 2**30, (A10, H100)), Machine(8 * 2**30)]
    on_gpu = largest_room(machines, on_gpu=True, limit=1.0)
    largest = f"the largest GPU ({H100.name}) has"
    assert on_gpu == Room(largest, H100.memory_mib * 2**20, host=12 * 2**30)
    assert largest_room([*machines, Machine(0)], on_gpu=True, limit=None) == replace(on_gpu, host=0)
    assert largest_room([Machine(2**30)], on_gpu=True, limit=None) is None
    on_cpu = largest_room(machines, on_gpu=False, limit=None)
    assert on_cpu == Room("the largest machine has", 8 * 2**30)
    assert largest_room([], on_gpu=False, limit=None) is None
    limited = largest_room(machines, on_gpu=False, limit=5.0)
    assert limited == Room("--memory-per-trial allows", 5.0)
