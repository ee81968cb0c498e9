"""Several ranks compute what one process computes: losses, gradients and embeddings."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from tests import architectures
from tests.method_cases import CASES, IDS, values_of
from tests.ranks.computed import computed
from tests.ranks.rank import Computed, by_ranks, kit_of

TRAINED = {
    case: (name, options)
    for case, (name, options) in zip(IDS, CASES, strict=True)
    if issubclass(registry.load(name).config_type, TrainingConfig)
}
"""The cases of methods that train"""

DECODERS = {
    "decoder": "simcse-semisup", "low-rank decoder": "simcse-2", "bf16 decoder": "simcse-2",
    "bidirectional decoder": "llm2vec-2-0.0",
}  # fmt: skip
"""Case with a decoder -> the case of which it is another one"""
LIMITS = {"bf16 decoder": 2**-8}
"""Case -> the largest difference, where it is not 1e-5.

Frozen weights in bf16 beside low-rank changes round to 2^-8, and rows round otherwise where they
are padded otherwise: 1.1e-3 by three ranks, 1.1e-7 by two (float32: 1.6e-7 and 1.1e-7), while the
same model in float32 is 2e-2 away."""


@pytest.fixture(scope="module")
def cases(
    tiny_encoder: Path, sentences: Path, triplets: Path, pairs: Path, tmp_path_factory: Any
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Case -> method and all its values."""
    runs = {}
    for case, (name, options) in TRAINED.items():
        fields = registry.load(name).config_type.model_fields
        small = {
            "generator": str(tiny_encoder), "sentences": str(sentences),
            "triplets": str(triplets), "precision": "fp32",
        }  # fmt: skip
        known = {field: value for field, value in small.items() if field in fields}
        runs[case] = name, known | values_of(name, options, str(tiny_encoder), triplets, pairs)
    decoder = architectures.save("Llama", tmp_path_factory.mktemp("decoder"))
    bf16 = tmp_path_factory.mktemp("bf16")
    AutoModelForCausalLM.from_pretrained(decoder).bfloat16().save_pretrained(bf16)
    AutoTokenizer.from_pretrained(decoder).save_pretrained(bf16)
    for case, base in DECODERS.items():
        name, values = runs[base]
        changed = {"encoder": str(bf16), "precision": "bf16"} if case == "bf16 decoder" else {}
        runs[case] = name, values | {"encoder": str(decoder)} | changed
    return runs


@pytest.fixture(scope="module")
def alone(cases: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Computed]:
    """Results of this process by itself."""
    return {case: computed(*given) for case, given in cases.items()}


@pytest.fixture(scope="module")
def together(
    cases: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Computed]]:
    """Engine -> what its ranks compute. Ranks of equal number are the same processes."""
    results: dict[str, dict[str, Computed]] = {}
    for count in {fields["workers"] for fields in ENGINES.values()}:
        runs = {
            engine: {
                case: (name, values | fields)
                for case, (name, values) in cases.items()
                if case not in REFUSED.get(engine, ()) and is_tried(engine, case)
            }
            for engine, fields in ENGINES.items()
            if fields["workers"] == count
        }
        folder = tmp_path_factory.mktemp("ranks")
        results |= by_ranks("tests.ranks.computed:computed", runs, count, folder)
    return results


def largest_difference(result: Computed, expected: Computed) -> float:
    """The largest difference, as a share of the largest number or of 1; no gradient is zeros."""
    nothing = torch.zeros(())
    both = {
        part: (result.get(part, nothing), expected.get(part, nothing))
        for part in result.keys() | expected.keys()
    }
    scale = max([1.0, *(each.abs().max().item() for each in expected.values())])
    return max((one - other).abs().max().item() for one, other in both.values()) / scale


ENGINES: dict[str, dict[str, Any]] = {
    "ddp-2": {"engine": "ddp", "workers": 2},
    "ddp-3": {"engine": "ddp", "workers": 3},
    "zero-1": {"engine": "deepspeed", "workers": 2, "zero": 1},
    "zero-2": {"engine": "deepspeed", "workers": 2, "zero": 2},
    "zero-3": {"engine": "deepspeed", "workers": 2, "zero": 3},
    "zero-2-offload": {
        "engine": "deepspeed", "workers": 2, "zero": 2, "offload_optimiser": True,
    },
    "zero-3-offload": {
        "engine": "deepspeed", "workers": 2, "zero": 3, "offload_optimiser": True,
        "offload_parameters": True,
    },
    "zero-2-own": {
        "engine": "deepspeed", "workers": 2, "zero": 2, "deepspeed": {"zero_optimization": {
            "allgather_bucket_size": 5000, "allgather_partitions": False,
            "contiguous_gradients": False, "overlap_comm": True, "reduce_bucket_size": 5000,
            "reduce_scatter": False, "use_multi_rank_bucket_allreduce": False,
        }},
    },
    "zero-3-own": {
        "engine": "deepspeed", "workers": 2, "zero": 3, "offload_optimiser": True,
        "offload_parameters": True, "deepspeed": {"zero_optimization": {
            "contiguous_gradients": False, "offload_optimizer": {"pin_memory": True},
            "offload_param": {"pin_memory": True}, "overlap_comm": False,
            "reduce_bucket_size": 5000, "stage3_max_live_parameters": 1000,
            "stage3_max_reuse_distance": 1000, "stage3_model_persistence_threshold": 2000,
            "stage3_param_persistence_threshold": 200, "stage3_prefetch_bucket_size": 1000,
            "stage3_use_all_reduce_for_fetch_params": True, "sub_group_size": 20_000,
        }},
    },
    "fsdp": {"engine": "fsdp", "workers": 2},
}  # fmt: skip
"""Three ranks, whose shares are not equally large"""
OF_ALL = "fsdp"
"""The engine that computes nearly all cases. It shards the weights, which a method may read by
itself; the ranks share rows, losses and queues in the same way with every engine."""
ALIKE = [
    "simcse-semisup", "consert-dropout-none", "scored_pairs-cosent", "cotbert-released-1",
    "promptbert-semisup-released", "dcpcse-input-layer", "d2cse-sup-copy-sum",
    "diffcse-masked-language", "diffcse-negatives", "diffaug-adapter-sum",
]  # fmt: skip
"""Cases that it does not compute, because ranks meet in them as in another one of the method"""
SOME = [
    "sbert", "promptbert", "d2cse", "diffaug-same-released", "simcse-2", "esimcse-2.0",
    "consert-sup-adversarial-shuffle", "whitenedcse", "clsr-20", "flow-last-two", "decoder",
    "bf16 decoder",
]  # fmt: skip
"""The cases of `ddp-3`, `zero-2` and `zero-3`: pairs and triplets, one stage and two, prompts,
frozen ones, a queue with a momentum encoder, statistics of the whole batch, decoders"""
FEW = ["diffaug-same-released"]
"""The case of all other engines, with two stages, prompts and frozen ones. Two ranks of DDP are a
simpler case of three, and DeepSpeed has the same code for stages 1 and 2 and for what is kept in
the memory of the CPU. Those called `own` have every entry that a user may set, with other values
than DeepSpeed's."""
IN_CHUNKS = [
    "simcse-semisup", "rankcse", "mixcse", "pcl", "infocse", "vascl", "dclr", "isbert", "angle",
    "sncse", "cotbert-1", "scored_pairs-cosent", "dcpcse-True-0.5", "dcpcse-layer-shared-sup-10.0",
]  # fmt: skip
"""Further cases of `test_chunks`: losses over all rows of a batch"""
SMALL, MOVED = ["clsr-20", "flow-last-two"], ["esimcse-2.0"]
REFUSED = {
    "zero-2": SMALL,
    "zero-3": [*SMALL, *MOVED, "consert-sup-adversarial-shuffle"],
    "fsdp": [*SMALL, *MOVED],
}
"""Engine -> cases that it refuses to train"""


def is_tried(engine: str, case: str) -> bool:
    """Whether an engine computes a case."""
    if engine == OF_ALL:
        return case not in ALIKE
    return case in (SOME if engine in ("ddp-3", "zero-2", "zero-3") else FEW)


def too_different(found: dict[str, Computed], alone: dict[str, Computed]) -> dict[str, float]:
    """Case -> its largest difference, for those above their limit."""
    each = {case: largest_difference(computed, alone[case]) for case, computed in found.items()}
    return {case: far for case, far in each.items() if far > LIMITS.get(case, 1e-5)}


# More than 20 s: all methods; the two or three processes are the same for all engines.
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("engine", ENGINES)
def test_ranks(
    together: dict[str, dict[str, Computed]], alone: dict[str, Computed], engine: str
) -> None:
    assert not too_different(together[engine], alone)


@pytest.mark.parametrize("engine", REFUSED)
def test_what_an_engine_cannot_train_is_refused(cases: dict[str, Any], engine: str) -> None:
    """Each in one sentence that names an engine for it."""
    for case in REFUSED[engine]:
        name, values = cases[case]
        with pytest.raises(UserError, match=r"choose engine=ddp|zero=2|choose other views"):
            kit_of(name, values | ENGINES[engine]).declared.check()


@pytest.mark.slow
def test_chunks(cases: dict[str, Any], alone: dict[str, Computed]) -> None:
    """A batch in chunks of seventeen rows, the last of which is shorter."""
    in_chunks = {
        case: computed(name, values | {"chunk_size": 17})
        for case, (name, values) in cases.items()
        if case in SOME or case in IN_CHUNKS
    }
    assert in_chunks.keys() == {*SOME, *IN_CHUNKS}
    assert not too_different(in_chunks, alone)
