"""Variants, settings and encoders of a method, and configurations that train the same thing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.data.hub import model_folder
from harness.errors import UserError
from harness.plugin import registry
from harness.sweeps.budget import Budget
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.trial import key

HEAD = """\
suite: graded
select: {metric: graded-dev}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, triplets: graded-triplets, max_steps: 2}
"""
SCHEDULES = """\
setting: semisup
methods:
  simcse:
    variants:
      joint: {schedule: joint}
      labels first: {schedule: sup-unsup, learning_rate: 1e-4}
"""
ALPHAS = """\
methods:
  simcse:
    grid:
      schedule: [joint, sup-unsup, sup-joint]
      auxiliary_weight: [1e-4, 1e-3, 1e-2]
"""
Found = Callable[..., list[Search]]


def searched(search: Search) -> list[dict[str, Any]]:
    """The configurations of the first round."""
    return search.configurations(0, []) if search.rounds else []


def final(search: Search) -> list[tuple[int, Any]]:
    """The seed and the configuration of each final trial that has one configuration."""
    return [(trial.seed, trial.config) for trial in search.trials([search.fixed], "final")]


def keys(search: Search) -> list[str]:
    """The keys of the final trials that have one configuration."""
    return [key(trial) for trial in search.trials([search.fixed], "final")]


def test_every_variant_gets_the_final_seeds_and_has_its_own_search(searches_of: Found) -> None:
    joint, first = searches_of(HEAD + SCHEDULES)
    assert [each.label for each in (joint, first)] == [
        "simcse semisup tiny-bert (joint)",
        "simcse semisup tiny-bert (labels first)",
    ]
    runs = [(seed, config.schedule) for seed, config in final(joint)]
    assert runs == [(0, "joint"), (1, "joint")]
    [(_, config), _] = final(first)
    assert (config.schedule, config.learning_rate) == ("sup-unsup", 1e-4)
    overridden = searches_of(HEAD + SCHEDULES, values={"learning_rate": 0.5})
    assert {each.config.model_dump()["learning_rate"] for each in overridden} == {0.5}
    assert not joint.rounds
    assert not first.rounds
    [label, _] = (trial.label for trial in joint.trials([joint.fixed], "final"))
    assert label == "simcse semisup tiny-bert (joint) seed 0"
    searches = searches_of(HEAD + SCHEDULES + "    grid: {batch_size: [8, 16]}\n")
    tried = [[values["batch_size"] for values in searched(each)] for each in searches]
    assert tried == [[8, 16], [8, 16]]
    assert len({each.id for each in searches}) == 2


def test_a_variant_may_have_a_grid_of_its_own(searches_of: Found) -> None:
    text = SCHEDULES.replace("learning_rate: 1e-4", "grid: {learning_rate: [1e-4, 1e-3]}")
    joint, first = searches_of(HEAD + text)
    assert not joint.rounds
    assert [values["learning_rate"] for values in searched(first)] == [1e-4, 1e-3]
    _, fixed = searches_of(HEAD + text, values={"learning_rate": 0.5})
    assert not fixed.rounds
    for wrong, part in (
        (SCHEDULES.replace("1e-4", "1e-4, grid: {learning_rate: [1, 2]}"), "is searched as well"),
        (text + "    grid: {batch_size: [8]}\n", "exclude each other"),
        (text.replace("{learning_rate: [1e-4, 1e-3]}", "{}"), "the grid is empty"),
        (text.replace("[1e-4, 1e-3]", "[1e-4, -1]"), "greater than 0"),
        (text.replace("grid: {learning_rate", "grid: {learning_rat"), 'mean "learning_rate"'),
    ):
        with pytest.raises(UserError, match=rf"line 1[0-9].*{part}"):
            searches_of(HEAD + wrong)


def test_a_variant_without_values_is_the_method_itself(searches_of: Found) -> None:
    plain, _ = searches_of(
        HEAD + "methods: {simcse: {variants: {plain: , slow: {learning_rate: 1e-6}}}}\n"
    )
    [alone] = searches_of(HEAD + "methods: {simcse: }\n")
    assert keys(plain) == keys(alone)


def test_a_method_has_a_setting_and_encoders_of_its_own(searches_of: Found) -> None:
    labels = [
        each.label for each in searches_of(HEAD + "setting: [semisup, sup]\nmethods: {simcse: }\n")
    ]
    assert labels == ["simcse semisup tiny-bert", "simcse sup tiny-bert"]
    text = "setting: sup\nmethods: {sbert: , simcse: {setting: unsup, encoders: [mini-bert]}}\n"
    labels = [each.label for each in searches_of(HEAD + text)]
    assert labels == ["sbert sup tiny-bert", "simcse unsup mini-bert"]
    narrowed = searches_of(HEAD + text, encoders=("tiny-bert",), values={"setting": "sup"})
    assert [each.label for each in narrowed] == ["sbert sup tiny-bert", "simcse sup tiny-bert"]


def test_encoders_that_end_in_one_word_have_labels_of_their_own(
    searches_of: Found, tmp_path: Path
) -> None:
    """By its label, a search has its first configuration and its final seeds within a budget."""
    tiny = model_folder("tiny-bert")
    encoders = [str(shutil.copytree(tiny, tmp_path / folder / "best")) for folder in ("a", "b")]
    methods = "methods: {simcse: {grid: {batch_size: [4, 8]}}}\n"
    searches = searches_of(HEAD + methods, encoders=tuple(encoders))
    assert [each.label for each in searches] == [f"simcse unsup {name}" for name in encoders]
    budget = Budget(0.0, searches, lambda: 1)
    for search in searches:
        assert budget.has_time(search)
        budget.began(search)
    assert not any(map(budget.has_time, searches))


def test_published_values_leave_the_variants(searches_of: Found) -> None:
    grid = "    grid: {batch_size: [8, 16]}\n"
    searches = searches_of(HEAD + SCHEDULES + grid, published=True)
    assert [each.label for each in searches] == [
        each.label for each in searches_of(HEAD + SCHEDULES)
    ]
    assert not any(each.rounds for each in searches)
    assert {each.config.model_dump()["batch_size"] for each in searches} == {64}
    # They are those of the encoder.
    rounds = "methods: {d2cse: {rounds: [{learning_rate: [0.1, 0.2]}, {epochs: [1, 2]}]}}\n"
    options: dict[str, Any] = {"encoders": ("bert-base-uncased", "roberta-base"), "published": True}
    rates = [
        each.config.model_dump()["learning_rate"] for each in searches_of(HEAD + rounds, **options)
    ]
    assert rates == [0.021, 0.044]


def test_what_a_schedule_does_not_use_is_not_varied(searches_of: Found) -> None:
    [search] = searches_of(HEAD + "setting: semisup\n" + ALPHAS)
    tried = [(each["schedule"], each["auxiliary_weight"]) for each in searched(search)]
    assert tried == [
        ("joint", 1e-4), ("joint", 1e-3), ("joint", 1e-2), ("sup-unsup", 1e-3),
        ("sup-joint", 1e-4), ("sup-joint", 1e-3), ("sup-joint", 1e-2),
    ]  # fmt: skip


def test_a_grid_of_one_configuration_is_no_search(searches_of: Found) -> None:
    """Supervised SimCSE has no auxiliary loss, so its one configuration gets the final seeds."""
    with pytest.raises(UserError, match="auxiliary_weight = -1"):  # also of an unused field
        searches_of(HEAD + "setting: sup\nmethods: {simcse: {set: {auxiliary_weight: -1}}}\n")
    limited = "{set: {sentences: graded-sentences, max_steps: 5}, grid: {epochs: [1, 2]}}"
    [search] = searches_of(HEAD + f"methods: {{simcse: {limited}}}\n")
    assert not search.rounds
    [search] = searches_of(HEAD + "setting: sup\n" + ALPHAS)
    assert not search.rounds
    [plain] = searches_of(HEAD + "setting: sup\nmethods: {simcse: }\n")
    assert keys(search) == keys(plain)


def test_a_length_that_another_one_ends_is_not_varied(searches_of: Found) -> None:
    """An epoch of the embedded sentences has 94 steps of 64."""
    for lengths, tried in (
        ("epochs: [1, 2, 4, 8], max_steps: [120]", [(1, 120), (2, 120)]),
        ("epochs: [1], max_steps: [10, 20, 1000, 2000]", [(1, 10), (1, 20), (1, 1000)]),
        ("epochs: [1, 2]", [(1, None), (2, None)]),
    ):
        fixed = "sentences: graded-sentences, max_steps: null"
        method = f"simcse: {{set: {{{fixed}}}, grid: {{{lengths}}}}}"
        [search] = searches_of(HEAD + f"methods: {{{method}}}\n")
        assert [(one["epochs"], one.get("max_steps")) for one in searched(search)] == tried
        trials = search.trials(searched(search), "search")
        assert len({trial.declared.steps for trial in trials}) == len(tried)


@pytest.mark.parametrize(
    ("method", "fixed", "void"),
    [
        ("diffaug", {"auxiliary_weight": 0}, {"auxiliary_batch_size": 8}),
        ("diffaug", {"auxiliary_weight": 0}, {"auxiliary_released": True}),
        ("diffaug", {"stage1_steps": 0}, {"stage1_learning_rate": 1.0, "stage1_batch_size": 3}),
        ("diffaug", {"stage1_steps": 0}, {"stage1_decay_steps": 9, "stage1_clip": "released"}),
        ("simcse", {}, {"hard_negative_weight": 1.0}),
        ("simcse", {"setting": "semisup"}, {"hard_negative_weight": 1.0}),
        ("diffcse", {"objective": "none"}, {"edit": "delete", "masking_ratio": 0.4}),
        ("diffcse", {"replaced_token_weight": 0}, {"generator": "x", "rtd_reduction": "sum"}),
        ("diffcse", {"objective": "masked-language"}, {"generator_eval": True}),
        ("diffcse", {"edit": "delete"}, {"replace_only_masked": True, "generator": "x"}),
        ("diffcse", {"objective": "negatives"}, {"replaced_token_weight": 1.0}),
        ("diffcse", {"contrastive": False}, {"temperature": 0.5}),
        ("esimcse", {"repetition_rate": 0}, {"repetition_range": "paper"}),
        ("esimcse", {"queue_ratio": 0}, {"momentum": 0.5, "momentum_start": "random"}),
        ("consert", {"first_view": "shuffle"}, {"first_rate": 0.5, "noise_norm": 2.0}),
        ("consert", {"second_view": "none"}, {"second_rate": 0.5}),
        ("consert", {"setting": "sup", "contrastive_weight": 0}, {"temperature": 0.5}),
        ("consert", {"setting": "sup", "contrastive_weight": 0}, {"second_view": "none"}),
        ("promptbert", {"denoising": "none"}, {"dev_denoise": False, "test_denoise": True}),
        ("promptbert", {"test_denoise": False}, {"test_shift": False}),
        ("promptbert", {"setting": "sup"}, {"second_template": "It is {s} [MASK]."}),
    ],
)
def test_a_value_that_changes_nothing_makes_no_other_trial(
    method: str, fixed: dict[str, Any], void: dict[str, Any]
) -> None:
    """Trained before they were one: with either value, scores and history were equal."""
    config = registry.load(method).config_type
    assert config(**fixed, **void) == config(**fixed)
    assert config(**void) != config() or set(void) <= set(config().unused)


def test_an_unused_field_falls_back_to_the_published_value() -> None:
    from harness import plugin

    class Config(plugin.TrainingConfig):
        kind: str = "soft"
        length: int = 4
        published: ClassVar = {("unsup", "*"): {"length": 8}}

        @property
        def unused(self) -> set[str]:
            return set() if self.kind == "soft" else {"length"}

    assert Config(length=2).length == 2
    assert Config(kind="hard", length=2) == Config(kind="hard")
    assert Config(kind="hard", length=2).length == 8
    assert Config(kind="soft", length=2).length == 2


def test_the_shipped_grids_plan_no_training_twice() -> None:
    """Five weights of an unused loss were five equal trials; there were 160 of `semisup`."""
    grids = searches(*load_space(shipped_spaces()["semisup"]), Overrides())
    trials = [
        trial
        for search in grids
        for number in range(len(search.rounds))
        for trial in search.trials(search.configurations(number, []), "search")
    ]
    assert len(trials) + sum(len(final(search)) for search in grids) == 136
