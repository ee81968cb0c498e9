"""Declarations of methods: published values and corpora, what is refused, and what counts."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve

BERT, BERT_LARGE = "bert-base-uncased", "bert-large-uncased"
ROBERTA, ROBERTA_LARGE = "roberta-base", "roberta-large"
DISTILBERT, DISTILROBERTA = "distilbert-base-uncased", "distilroberta-base"
SIMCSE = "princeton-nlp/unsup-simcse-"


def table(method: str, columns: str, *rows: tuple[Any, ...], **common: Any) -> list[Any]:
    """A case for each row: given fields -> fields that follow. common: what all rows have."""
    inputs, expected = (part.split() for part in columns.split("->"))
    return [
        pytest.param(
            method,
            dict(zip(inputs, row[: len(inputs)], strict=True)),
            dict(zip(expected, row[len(inputs) :], strict=True)) | common,
            id="-".join([method, *map(str, row[: len(inputs)])]),
        )
        for row in rows
    ]


PUBLISHED = [
    *table(
        "simcse", "setting encoder -> batch_size learning_rate epochs",
        *((setting, *row) for setting in ("unsup", "semisup") for row in [
            (BERT, 64, 3e-5, 1), (BERT_LARGE, 64, 1e-5, 1),
            (ROBERTA, 512, 1e-5, 1), (ROBERTA_LARGE, 512, 3e-5, 1),
        ]),
        ("sup", BERT, 512, 5e-5, 3), ("sup", BERT_LARGE, 512, 1e-5, 3),
        ("sup", ROBERTA, 512, 5e-5, 3), ("sup", ROBERTA_LARGE, 512, 1e-5, 3),
        temperature=0.05, max_length=32, evaluation_interval=125, weight_decay=0, warmup_ratio=0,
        gradient_clipping=1.0, sentences="wiki1m", triplets="nli-triplets", masking_ratio=0.15,
        hard_negative_weight=0, schedule="joint", auxiliary_weight=1e-3, auxiliary_batch_size=128,
    ),
    # A given value beats the published one.
    *table("simcse", "setting encoder learning_rate -> batch_size",
           ("sup", ROBERTA_LARGE, "2e-5", 512), learning_rate=2e-5),
    *table("simcse", "setting epochs -> batch_size", ("sup", 1, 512), epochs=1),
    *table(
        "diffcse",
        "setting encoder -> learning_rate masking_ratio batch_size epochs generator",
        ("unsup", BERT, 7e-6, 0.3, 64, 2, DISTILBERT),
        ("unsup", ROBERTA, 1e-5, 0.2, 64, 2, DISTILROBERTA),
        ("sup", BERT, 5e-5, 0.3, 512, 3, DISTILBERT),
        replaced_token_weight=0.005, temperature=0.05, max_length=32, weight_decay=0,
        warmup_ratio=0, gradient_clipping=1.0, evaluation_interval=125, head="batchnorm",
        rtd_reduction="mean_all", generator_eval=False, replace_only_masked=False,
        static_corruption=False,
    ),
    # Each ablation is one setting away; positives and negatives are those of SimCSE (appendix B).
    *table(
        "diffcse", "edit encoder -> masking_ratio learning_rate",
        ("replace", BERT, 0.3, 7e-6), ("insert", BERT, 0.15, 7e-6), ("all", ROBERTA, 0.15, 1e-5),
        head="batchnorm", epochs=2,
    ),
    *table("diffcse", "edit masking_ratio -> head learning_rate epochs",
           ("delete", 0.3, "batchnorm", 7e-6, 2), masking_ratio=0.3),
    *table(
        "diffcse", "objective -> masking_ratio head learning_rate epochs",
        ("positives", 0.15, "tanh", 3e-5, 1), ("none", 0.3, "tanh", 7e-6, 2),
        ("corrective", 0.3, "batchnorm", 7e-6, 2),
    ),
    *table("diffcse", "objective head -> masking_ratio learning_rate epochs",
           ("negatives", "batchnorm", 0.15, 3e-5, 1), head="batchnorm"),
    *table(
        "d2cse",
        "setting encoder -> batch_size learning_rate epochs prompt_length cls_prompt generator",
        ("unsup", BERT, 144, 0.021, 2, 16, False, DISTILBERT),
        ("unsup", BERT_LARGE, 144, 0.034, 2, 16, False, DISTILBERT),
        ("unsup", ROBERTA, 128, 0.044, 2, 16, True, DISTILROBERTA),
        ("sup", BERT, 256, 0.055, 10, 12, True, DISTILBERT),
        ("sup", ROBERTA, 256, 0.024, 10, 12, True, DISTILROBERTA),
        masking_ratio=0.3, replaced_token_weight=0.005, temperature=0.05, max_length=32,
        gradient_clipping=1.0, evaluation_interval=125,
    ),
    *table(
        "dcpcse", "setting encoder -> batch_size learning_rate prompt_length mlm epochs",
        ("unsup", BERT, 256, 3e-2, 16, False, 1), ("unsup", BERT_LARGE, 256, 3e-2, 10, False, 1),
        ("unsup", ROBERTA, 64, 3e-2, 14, True, 1), ("unsup", ROBERTA_LARGE, 64, 1e-2, 10, True, 1),
        ("sup", BERT, 256, 5e-3, 12, False, 10), ("sup", BERT_LARGE, 256, 5e-3, 12, False, 10),
        ("sup", ROBERTA, 256, 1e-2, 10, False, 10),
        ("sup", ROBERTA_LARGE, 256, 5e-3, 10, False, 10),
        prompts="deep", temperature=0.05, masking_ratio=0.15, max_length=32, warmup_ratio=0,
        weight_decay=0, gradient_clipping=1.0, evaluation_interval=125, masked_language_weight=0.1,
    ),
    *table(
        "dcpcse", "prompts encoder -> batch_size learning_rate epochs mlm",
        ("shallow", BERT, 256, 1e-3, 5, False), ("shallow", ROBERTA, 256, 1e-3, 5, False),
        template='This sentence : "{s}" means [MASK]',  # without a final full stop
    ),
    *table("dcpcse", "prompts learning_rate -> epochs", ("shallow", "2e-3", 5), learning_rate=2e-3),
    *table(
        "promptbert", "setting encoder -> batch_size learning_rate epochs dev_denoise test_denoise",
        *((setting, encoder, *values) for encoder in (BERT, ROBERTA, BERT_LARGE)
          for setting, *values in [("unsup", 256, 1e-5, 1, True, False),
                                   ("semisup", 256, 1e-5, 1, True, False),
                                   ("sup", 512, 5e-5, 3, True, True)]),
        temperature=0.05, max_length=32, evaluation_interval=125, denoising="intended",
        test_shift=True, final_stop=True, schedule="joint", weight_decay=0, warmup_ratio=0,
        gradient_clipping=1.0,
    ),
    *table(
        "consert",
        "setting encoder -> learning_rate first_view second_view encoder_dropout max_length "
        "evaluation_interval",
        *((setting, *row) for setting in ("unsup", "semisup") for row in [
            (BERT, 5e-7, "feature-cutoff", "shuffle", 0.0, 64, 200),
            (BERT_LARGE, 5e-7, "none", "shuffle", 0.1, 40, 100),
        ]),
        ("sup", BERT, 2e-5, "none", "token-cutoff", 0.1, 64, 200),
        ("sup", BERT_LARGE, 2e-5, "none", "token-cutoff", 0.1, 40, 200),
        batch_size=96, temperature=0.1, contrastive_weight=0.15, warmup_ratio=0.1,
        weight_decay=0.01, gradient_clipping=1.0, sentences="wiki1m", pairs="nli-pairs", epochs=1,
    ),  # no STS texts
    *table("consert", "setting encoder -> first_rate",
           ("unsup", BERT, 0.2), ("semisup", BERT, 0.2)),
    *table("consert", "setting encoder -> second_rate",
           ("sup", BERT, 0.1), ("sup", BERT_LARGE, 0.1)),
    # Every view that a file can name; consert.md, section 2.
    *table("consert", "second_view -> setting", ("none", "unsup"), ("shuffle", "unsup"),
           ("token-cutoff", "unsup"), ("feature-cutoff", "unsup"), ("dropout", "unsup")),
    *table("consert", "setting second_view -> epochs", ("sup", "adversarial", 1)),
    *table("consert", "first_view second_view encoder_dropout -> epochs", ("none", "none", 0.1, 1)),
    *table(
        "esimcse", "encoder -> learning_rate repetition_rate queue_ratio encoder_dropout",
        (BERT, 3e-5, 0.32, 2.5, 0.1), (BERT_LARGE, 1e-5, 0.32, 2.5, 0.1),
        (ROBERTA, 1e-5, 0.3, 2.5, 0.1), (ROBERTA_LARGE, 1e-5, 0.28, 2.0, 0.15),
        batch_size=64, momentum=0.995, momentum_start="pretrained", temperature=0.05,
        max_length=32, epochs=1, evaluation_interval=125, repetition_range="code", weight_decay=0,
    ),
    # Table 5
    *table(
        "diffaug", "setting -> learning_rate batch_size epochs stage1_steps stage1_decay_steps",
        ("semisup", 1e-5, 256, 1, 1500, 3907), ("sup", 5e-5, 128, 3, 1250, 1614),
        stage1_learning_rate=1e-3, stage1_batch_size=128,
    ),
    *table("diffaug", "-> setting auxiliary_weight evaluation_interval", ("semisup", 1e-3, 50)),
    *table("diffaug", "setting -> accumulation", ("sup", 4)),
    *table("diffaug", "auxiliary_weight -> stage1_steps", (0, 2000)),
    # diffaug.md, section 7: the released rule would leave 15 steps in stage 2, at a rate of 0.
    *table("diffaug", "setting label_fraction -> accumulation stage1_decay_steps stage1_steps",
           ("sup", 0.01, 1, 1614, 1250)),
    *table(
        "clsr", "-> setting pairs pooling relu batch_size epochs learning_rate weight_decay",
        ("sup", "nli-entailments", "mean", "both", 512, 2000, 0.5, 1e-4),
        temperature=0.1, precision="fp32",
    ),
    # Its warm-up is 10 epochs, however many there are.
    *table("clsr", "epochs -> warmup_ratio", (2000, 0.005), (100, 0.1), (10, 1.0), (1, 1.0)),
    *table("clsr", "epochs warmup_ratio -> epochs", (100, 0.25, 100), warmup_ratio=0.25),
    *table(
        "flow", "-> setting corpus pooling max_length levels steps_per_level coupling_width",
        ("unsup", "nli-pairs", "first-last", 64, 3, 3, 32),
        batch_size=32, epochs=1, learning_rate=1e-3, weight_decay=0.01, gradient_clipping=1.0,
        warmup_ratio=0, permutation="reverse",
    ),
    *table("whitening", "-> corpus pooling dimensions max_length",
           ("nli-pairs", "first-last", None, 64)),
    *table(
        "angle", "-> cosine_weight in_batch_weight angle_weight cosine_scale in_batch_scale",
        (1, 1, 1, 20, 20), angle_scale=1, learning_rate=5e-5, batch_size=128, max_length=128,
        epochs=10, warmup_ratio=pytest.approx(50 * 128 / 275_601 / 10, rel=0.01),
    ),
    *table("arccse", "-> angular_margin triplet_weight triplet_margin smaller_ratio larger_ratio",
           (10, 0.1, 0, 0.2, 0.4), temperature=0.05, learning_rate=3e-5),
    *table(
        "cotbert", "encoder -> learning_rate batch_size accumulation temperature",
        (BERT, 1e-5, 128, 2, 0.05), (ROBERTA, 1e-5, 128, 2, 0.05),
        max_length=32, epochs=1, evaluation_interval=125, denoising="padding",
        contrasts_second=True,
    ),
    *table("ct", "-> batch_size negatives max_steps max_length encoder_dropout",
           (16, 7, 50_000, 75, 0.0)),
    *table(
        "dclr",
        "encoder -> learning_rate batch_size epochs similarity_bound noise_ratio head_layers "
        "teacher",
        (BERT, 3e-5, 128, 3, 0.9, 1.0, 2, f"{SIMCSE}{BERT}"),
        (ROBERTA, 3e-5, 128, 3, 0.85, 2.5, 2, f"{SIMCSE}{ROBERTA}"),
        (f"{SIMCSE}{BERT_LARGE}", 3e-5, 256, 1, 0.9, 3.0, 1, f"{SIMCSE}{BERT}"),
        (f"{SIMCSE}{ROBERTA_LARGE}", 1e-5, 256, 1, 0.85, 5.0, 1, f"{SIMCSE}{ROBERTA}"),
        temperature=0.05, ascent_steps=4, ascent_rate=1e-3,
    ),
    *table(
        "infocse", "-> learning_rate batch_size epochs masking_ratio reconstruction_weight",
        (7e-6, 64, 2, 0.4, 1e-5), auxiliary_layers=2, head="batchnorm", lower_layers=None,
    ),
    *table("infocse", "encoder -> masking_ratio lower_layers", (BERT_LARGE, 0.3, 6)),
    *table("isbert", "-> sentences filters learning_rate warmup_ratio weight_decay",
           ("nli-pairs", 256, 1e-6, 0.1, 0.01)),
    *table("mixcse", "-> mixing_share temperature learning_rate batch_size epochs",
           (0.2, 0.05, 3e-5, 64, 1), evaluation_interval=125),
    *table("pcl", "-> views change_rate temperature batch_size learning_rate epochs",
           (10, 0.2, 0.05, 64, 3e-5, 1)),
    *table(
        "prompteol", "setting encoder -> lora_rank lora_alpha learning_rate batch_size epochs",
        ("sup", "tiny-bert", 64, 16, 5e-4, 256, 1),
        max_length=32, temperature=0.05, evaluation_interval=50,
        warmup_ratio=pytest.approx(100 * 256 / 275_601, rel=0.005),
        template='This sentence : "{s}" means in one word:"',
    ),
    *table(
        "sbert", "-> setting encoder batch_size learning_rate epochs max_length",
        ("sup", BERT, 16, 2e-5, 1, 128), warmup_ratio=0.1, weight_decay=0.01,
        gradient_clipping=1.0, evaluation_interval=1000, max_steps=None, label_fraction=1,
    ),
    *table(
        "sncse", "encoder -> learning_rate batch_size margin_weight",
        (BERT, 1e-5, 256, 1e-3), (BERT_LARGE, 5e-6, 128, 1e-3),
        (ROBERTA, 1e-5, 256, 5e-4), (ROBERTA_LARGE, 5e-6, 128, 5e-4),
        smallest_margin=0.1, largest_margin=0.3, temperature=0.05, max_length=32, epochs=1,
        evaluation_interval=125,
    ),
    *table(
        "vascl", "-> learning_rate head_rate batch_size neighbours perturbation temperature",
        (5e-6, 5e-4, 1024, 16, 15, 0.05), head_width=128, epochs=5, evaluation_interval=500,
    ),
    *table("whitenedcse", "-> views group_size temperature batch_size learning_rate epochs",
           (3, 6, 0.05, 128, 1e-5, 1)),
    *table("whitenedcse", "encoder -> group_size", (BERT_LARGE, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "values", "expected"), PUBLISHED)
def test_published_values(method: str, values: dict[str, Any], expected: dict[str, Any]) -> None:
    config = resolve(registry.load(method), values)
    assert {field: getattr(config, field) for field in expected} == expected


@pytest.mark.parametrize("encoder", [BERT, BERT_LARGE, ROBERTA, ROBERTA_LARGE])
def test_semi_supervised_simcse_has_all_unsupervised_values(encoder: str) -> None:
    unsup, semisup = (
        resolve(registry.load("simcse"), {"setting": setting, "encoder": encoder})
        for setting in ("unsup", "semisup")
    )
    assert unsup == semisup.model_copy(update={"setting": "unsup"})


SENTENCES, TRIPLETS = {"contrastive": "sentences"}, {"contrastive": "triplets"}
LABELLED = {"contrastive": "sentences", "labelled": "triplets"}


@pytest.mark.parametrize(
    ("method", "setting", "corpora", "models"),
    [
        ("d2cse", "unsup", SENTENCES, ["encoder", "generator"]),
        ("d2cse", "sup", TRIPLETS, ["encoder", "generator"]),
        ("diffcse", "unsup", SENTENCES, ["encoder", "generator"]),
        ("dcpcse", "unsup", SENTENCES, ["encoder"]),
        ("dcpcse", "sup", TRIPLETS, ["encoder"]),
        ("promptbert", "unsup", SENTENCES, ["encoder"]),
        ("promptbert", "semisup", LABELLED, ["encoder"]),
        ("promptbert", "sup", TRIPLETS, ["encoder"]),
        ("consert", "semisup", LABELLED, ["encoder"]),
        ("sbert", "sup", {"pairs": "pairs"}, ["encoder"]),
    ],
)
def test_corpora_and_models(
    method: str, setting: str, corpora: dict[str, str], models: list[str]
) -> None:
    plugin = registry.load(method)
    config = resolve(plugin, {"setting": setting})
    declared = plugin.declare(config)
    assert declared.corpora == {name: getattr(config, field) for name, field in corpora.items()}
    assert set(declared.models) == {getattr(config, field) for field in models}


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("simcse", {}),
        ("diffcse", {"replaced_token_weight": 0.075}),
        ("d2cse", {"replaced_token_weight": 0.075}),
        ("dcpcse", {}),
    ],
)
def test_a_stage_heeds_the_configuration(
    kit_for: Callable[..., Kit], name: str, weights: dict[str, float]
) -> None:
    kit = kit_for(name, max_steps=3, epochs=7, batch_size=9, **weights)
    (stage,) = kit.declared.stages
    assert (dict(stage.streams), stage.max_steps, stage.epochs) == ({"contrastive": 9}, 3, 7)
    assert stage.losses == {"contrastive": 1.0} | dict.fromkeys(
        ["replaced_tokens"] if weights else [], 0.075
    )
    assert (stage.optimisation.schedule, stage.optimisation.optimiser, stage.accumulation) == (
        "linear", "adamw", 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "values"),
    [("glove", {}), ("whitening", {}), ("pooling", {}), ("prompteol", {}), ("echo", {})],
)
def test_methods_that_do_not_train(method: str, values: dict[str, Any]) -> None:
    plugin = registry.load(method)
    assert plugin.method.stages(resolve(plugin, values)) == []


@pytest.mark.parametrize(
    ("method", "values", "losses"),
    [
        ("angle", {"cosine_weight": 0, "in_batch_weight": 30}, {"in-batch": 30.0, "angle": 1.0}),
        ("dcpcse", {"setting": "sup"}, {"contrastive": 1.0}),
        ("dcpcse", {"setting": "sup", "hinge_weight": 10}, {"contrastive": 1.0, "hinge": 10.0}),
        ("consert", {}, {"contrastive": 0.15}),
        ("consert", {"setting": "sup"}, {"contrastive": 0.15, "classification": 1.0}),
        ("diffcse", {"contrastive": False}, {"replaced_tokens": 0.005}),
        ("consert", {"setting": "semisup"}, {"contrastive": 0.15, "classification": 1e-3}),
        *(
            (
                "simcse",
                {"setting": setting, "masked_language_weight": 0.1},
                {"contrastive": 1.0, "masked_language": 0.1, **more},
            )
            for setting, more in (("unsup", {}), ("sup", {}), ("semisup", {"classification": 1e-3}))
        ),
    ],
)
def test_losses_and_their_weights(
    method: str, values: dict[str, Any], losses: dict[str, float]
) -> None:
    """A loss without a weight is left out."""
    plugin = registry.load(method)
    (stage,) = plugin.method.stages(resolve(plugin, values))
    assert stage.losses == losses


NEXT = {"edited": "next", "sentences": "neighbours:x.txt"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("simcse", {"temprature": 0.1}, r'no hyperparameter "temprature"; did you mean "temperature"'),
    ("simcse", {"setting": "both"}, "setting"),
    ("simcse", {"batch_size": 1}, "batch_size"),
    ("simcse", {"learning_rate": float("nan")}, "learning_rate"),
    ("diffcse", {"edited": "next"}, "^diffcse: edited=next needs running text, "
     "sentences=neighbours:FILE; wiki1m has no order$"),
    ("diffcse", {"edited": "next", "setting": "sup"}, "unsup setting only"),
    ("diffcse", {"objective": "negatives", "setting": "sup"}, "unsup setting only"),
    ("diffcse", {"objective": "corrective", "edit": "insert"}, "edit must be replace"),
    ("diffcse", {"objective": "masked-language", "edit": "all"}, "edit must be replace"),
    ("diffcse", {"objective": "none", "contrastive": False},
     "contrastive=False need a discriminator"),
    ("diffcse", {"replaced_token_weight": 0, "contrastive": False},
     "contrastive=False need a discriminator"),
    ("diffcse", {"static_corruption": True, "edit": "delete"}, "edit=replace"),
    ("diffcse", {"static_corruption": True, **NEXT}, "same sentence"),
    ("diffcse", {"static_corruption": True, "objective": "masked-language"}, "generated"),
    ("diffcse", {"objective": "positives", **NEXT}, "need a discriminator"),
    ("diffcse", {"edit": "swap"}, "edit = 'swap'"),
    ("dcpcse", {"prompts": "shallow", "mlm": True},
     "mlm = True: .*shallow prompts have no masked-LM loss"),
    ("dcpcse", {"prompts": "input-layer", "mlm": True},
     "input-layer prompts have no masked-LM loss"),
    ("dcpcse", {"hinge_weight": 10}, "hinge_weight = 10: .*hard negatives: add setting=sup"),
    *(("consert", {"setting": setting, view: "adversarial"},
       f"adversarial view needs the labels .* setting {setting}")
      for setting in ("unsup", "semisup") for view in ("first_view", "second_view")),
    ("consert", {"first_view": "none", "second_view": "none"},
     "two views that nothing changes are the same: choose"),
    ("consert", {"first_view": "cutoff"}, "first_view"),
    *(("diffaug", {"analysis": True, **values},
       "it needs augmentation=prefix and stage1_steps > 0")
      for values in ({"augmentation": "adapter"}, {"augmentation": "lora"}, {"stage1_steps": 0})),
    ("clsr", {"setting": "unsup"}, "setting"),
    ("ct", {"batch_size": 20}, r"batch_size 20 is no multiple of negatives \+ 1 = 8"),
    ("arccse", {"smaller_ratio": 0.5}, "smaller_ratio must not be above larger_ratio"),
    ("sncse", {"smallest_margin": 0.5}, "smallest_margin must not be above largest_margin"),
    ("scored_pairs", {"lowest_score": 5}, "lowest_score must be below highest_score"),
    ("llm2vec", {"decoder_pooling": "last-token"}, "decoder_pooling"),
    ("glove", {"encoder": BERT}, "encoder"),
    *(("echo", {"template": template}, r"an echo has \{s\} twice, the second one at its end")
      for template in ("", "{s}", "{s} and {s} ends", "{s} {s} {s}")),
    *(("prompteol", {"template": template}, r"a prompt has one \{s\}, and something behind it")
      for template in ("", "no sentence", "{s} and {s}", "it ends with {s}", "{s} .\n{s}")),
]  # fmt: skip


@pytest.mark.parametrize(("method", "values", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    method: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        resolve(registry.load(method), values)


MASKED = {"masked_language_weight": 0.3, "masking_ratio": 0.4, "freeze_lm_head": True}


@pytest.mark.parametrize(
    ("method", "values", "change", "counts"),
    [
        ("simcse", {}, {"masking_ratio": 0.4}, False),
        ("simcse", {"masked_language_weight": 0.1}, {"masking_ratio": 0.4}, True),
        ("simcse", {}, {"auxiliary_weight": 0.3}, False),
        ("simcse", {}, {"lora_alpha": 3}, False),
        ("dcpcse", {}, MASKED, False),
        ("dcpcse", {"mlm": True}, MASKED, True),
        ("dcpcse", {}, {"hinge_margin": 0.7}, False),
        ("dcpcse", {}, {"hard_negative_weight": 2.0}, False),
        ("dcpcse", {"prompts": "input-layer"}, {"position_shift": False}, False),
        ("dcpcse", {"prompts": "input-layer"}, {"prompt_length": 3}, True),
        ("angle", {"cosine_weight": 0, "in_batch_weight": 30}, {"cosine_scale": 3}, False),
        ("scored_pairs", {"objective": "cosent"}, {"highest_score": 1}, False),
        ("rankcse", {"distillation_weight": 0}, {"teacher": "another/one"}, False),
        ("llm2vec", {"stage1_steps": 0}, {"masking_ratio": 0.5}, False),
        ("prompteol", {}, {"learning_rate": 1.0, "lora_rank": 4, "max_length": 9}, False),
        ("prompteol", {}, {"decoder_pooling": "mean"}, False),
        ("prompteol", {}, {"tidied": False}, True),
    ],
)
def test_a_field_counts_where_something_reads_it(
    method: str, values: dict[str, Any], change: dict[str, Any], counts: bool
) -> None:
    plugin = registry.load(method)
    assert (resolve(plugin, values) != resolve(plugin, values | change)) is counts
