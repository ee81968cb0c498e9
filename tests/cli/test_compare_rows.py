"""`harness compare` of rows by number, methods, and trials by key; and the verdict on a sweep."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness import PROTOCOL
from harness.evaluation.catalogue import SuiteCard
from harness.evaluation.correlation import correlation
from harness.evaluation.kept import keep_pairs
from harness.report.comparison import Compared, stored_systems
from harness.report.finished_sweep import seeds_needed, verdicts
from harness.report.groups import comparable_groups
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.store_folders import pairs_file
from tests.cli.conftest import Harness, Shown, Swept, check_sentence

GOLD = np.linspace(0, 5, 150)
Add = Callable[..., list[str]]


Compare = Callable[..., str]


@pytest.fixture
def store(store: Path) -> Store:
    return Store(store)


@pytest.fixture
def compared(shown: Shown, store: Store) -> Compare:
    """compared(word, ...): what `harness compare` prints about the store."""
    return lambda *words: shown("compare", *words, "--store", store.folder)


@pytest.fixture
def add(store: Store) -> Add:
    """add(method, noise, seeds, dev): trials with the cosines of made-up pairs; their keys."""
    numbers = itertools.count()
    hard = np.random.default_rng(9).normal(size=len(GOLD))

    def one(method: str, noise: float, seed: int, dev: float, kept: bool, more: Any) -> str:
        number = next(numbers)
        random = np.random.default_rng(number)
        cosines = GOLD / 5 + noise * (hard + 0.3 * random.normal(size=len(GOLD)))
        key = f"{number:04x}{'f' * 28}"
        values = {
            "key": key, "status": "finished", "role": "final", "method": method,
            "seed": seed if more.get("steps", 10) else 42, "dev": {"graded-dev": dev + 0.1 * seed},
            "test": {"graded": correlation(cosines, GOLD).spearman}, "setting": "unsup",
            "encoder": "tiny-bert", "configuration": {"suite": "graded"}, "steps": 10,
            "suite": "graded", "selected_by": "graded-dev", "source_digest": "s",
            "data_digest": "d", "model_digest": "m", "protocol": PROTOCOL,
        }  # fmt: skip
        store.write(Record(**{**values, **more}))
        if kept:
            keep(store, key, cosines)
        return key

    def add(
        method: str, noise: float, seeds: int, dev: float = 50.0, kept: bool = True, **more: Any
    ) -> list[str]:
        return [one(method, noise, seed, dev, kept, more) for seed in range(seeds)]

    return add


def keep(store: Store, key: str, cosines: np.ndarray) -> None:
    """Keep the cosines of a trial."""
    keep_pairs({"graded": np.stack([cosines, GOLD])}, pairs_file(store.weights(key), "graded"))


def test_rows_methods_and_keys_are_compared_over_seeds_and_pairs(
    compared: Compare, store: Store, add: Add
) -> None:
    """Pairs that do not give the stored score do not count: they are of another table or model."""
    keys = add("simcse", 0.3, 3), add("pooling", 3.0, 1, steps=0)
    rows = compared(2, 1)
    assert rows == compared("simcse", "pooling")
    assert "A: simcse, 3 seeds, tiny-bert, unsup\nB: pooling, which trains nothing\n" in rows
    lines = {line.partition(":")[0]: line for line in rows.splitlines()}
    assert "(t-test, 3 seeds against a constant)" in lines["over seeds"]
    assert "(bootstrap of the test pairs, mean over the seeds)" in lines["over test pairs"]
    assert "(hierarchical bootstrap over seeds and test pairs)" in lines["over both"]
    (verdict,) = (line for line in rows.splitlines() if line.startswith("simcse is better"))
    assert "than pooling on graded: +" in verdict
    assert "other seeds would move it by up to" in verdict
    assert "other test sentences by up to" in verdict
    one = compared(keys[0][0][:8], keys[1][0][:8])
    assert "over seeds: not known: a trained system has one seed" in one
    assert "over both" not in one
    assert "what other seeds would do is not known" in one
    keep(store, keys[1][0], GOLD[::-1])
    assert "are not kept" in compared("simcse", "pooling")


def test_without_kept_pairs_the_seeds_alone_say_something(
    compared: Compare, store: Store, add: Add
) -> None:
    keys = add("simcse", 0.3, 3, kept=False)
    add("d2cse", 3.0, 3)
    shown = compared("simcse", "d2cse")
    assert "(paired t-test, 3 common seeds)" in shown
    assert f"the test cosines of trial {keys[0][:10]} and of 2 more trials are not kept" in shown
    keeping = f"harness eval {keys[0][:10]} --suite graded --store {store.folder}"
    assert f"are not kept here; to keep them: {keeping}\n" in shown
    assert "what other test sentences would do is not known" in shown


def test_rows_of_one_trial_each_are_no_names_of_models(compared: Compare, add: Add) -> None:
    add("clsr", 0.3, 1, kept=False)
    add("pooling", 3.0, 1, role="evaluation", steps=None, kept=False, evaluates="e" * 32,
        configuration={"suite": "graded", "pooling": "cls"})  # fmt: skip
    for words in ((1, 2), (2, 1), ("clsr", "pooling")):
        assert "whether that is more than chance is not known" in compared(*words)
    assert "harness eval tiny-bert --pooling cls --suite graded" in compared(2, 1)


def test_a_score_that_is_no_number_is_not_compared(
    compared: Compare, store: Store, add: Add
) -> None:
    for method in ("simcse", "clsr", "d2cse"):
        add(method, 0.3, 1, test={"graded": float("nan") if method == "clsr" else 50.0})
        add(method, 0.3, 1, seed=1, test={"graded": 51.0})
    sentence = "clsr and simcse are not compared on graded: a score is no number."
    shown = compared("clsr", "simcse")
    assert shown.splitlines()[-1] == sentence
    assert "+nan" not in shown
    assert "No likely number of seeds would tell it from clsr" not in " ".join(told(store))


@pytest.mark.slow
def test_rows_are_compared_by_a_suite_of_ones_own(
    compared: Compare, shown: Shown, store: Store, tmp_path: Path
) -> None:
    """Files name the suite, as for an evaluation; a cell's command says where these go."""
    table = tmp_path / "my pairs.csv"
    rows = [f"{'cat ' * n}dog,{'cat ' * (n % 5)}sun,{n}\n" for n in range(1, 12)]
    table.write_text("sentence1,sentence2,score\n" + "".join(rows), encoding="utf-8")
    for pooling in ("cls", "mean"):
        words = ("tiny-bert", "--pooling", pooling, "--suite", table, "--store", store.folder)
        shown("eval", *words)
    assert "on my pairs" in compared(1, 2, "--suite", table)
    cell = shown("show", "1.my-pairs", "--store", store.folder)
    assert f"--suite 'PATH/my pairs' --store {store.folder}" in cell


@pytest.mark.slow
def test_methods_are_compared_where_they_ran_alike(compared: Compare, add: Add) -> None:
    for setting in ("unsup", "sup"):
        add("simcse", 0.3, 2, setting=setting)
        add("d2cse", 0.5, 2, setting=setting)
    add("diffcse", 0.5, 2, setting="semisup")
    assert compared("simcse", "d2cse").count("A: simcse, 2 seeds, tiny-bert, ") == 2
    across = compared(3, 4)  # supervised and unsupervised rows
    assert "A: diffcse semisup" in across or "A: simcse sup" in across


def test_methods_are_compared_by_a_suite_that_both_have(compared: Compare, add: Add) -> None:
    """Also where the better trials of one of them have been measured by another suite alone."""
    add("simcse", 0.3, 2)
    sts = {"suite": "sts", "configuration": {"suite": "sts"}, "selected_by": "stsb-dev"}
    add("d2cse", 0.5, 2)
    add("simcse", 0.3, 2, 80.0, False, **sts)
    for words in ((), ("--suite", "graded")):
        shown = compared("simcse", "d2cse", *words)
        assert shown.count("A: simcse, 2 seeds, tiny-bert, unsup") == 1
        assert "on graded" in shown


def test_rows_are_compared_on_the_data_that_both_have(compared: Compare, add: Add) -> None:
    """Two of four seeds were measured on a file before it changed, and two after that."""
    keys = {"simcse": add("simcse", 0.3, 4), "d2cse": add("d2cse", 0.5, 2)}
    measured = {"simcse": ("old 10", "old 11", "new 52", "new 53"), "d2cse": ("new 51", "new 51.5")}
    for method, texts in measured.items():
        for seed, text in enumerate(texts):
            data, score = text.split()
            card = SuiteCard("mine", data=data).dumped()
            evaluation = {"role": "evaluation", "suite": "mine", "suite_card": card}
            test = {"test": {"x": float(score)}, "evaluates": keys[method][seed], "seed": seed}
            add(method, 0.3, 1, kept=False, **evaluation, **test)
    shown = compared("simcse", "d2cse", "--suite", "mine")
    assert "A: simcse, 2 seeds, tiny-bert, unsup\nB: d2cse, 2 seeds, " in shown
    (line,) = (line.split() for line in shown.splitlines() if line.startswith("  x "))
    assert line[1:4] == ["52.50", "51.25", "+1.25"]


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        (
            {"uniformity": (-2.0, -1.0), "first-component": (0.1, 0.4)},
            "simcse is better than d2cse on Uniformity: -1.000; ",
        ),
        (
            {"first-component": (0.1, 0.4)},
            "simcse and d2cse differ by 0.300 on first component, where no value is better.",
        ),
    ],
    ids=["ranked", "not ranked"],
)
def test_a_value_that_is_no_better_than_another_decides_nothing(
    scores: dict[str, tuple[float, float]], verdict: str, compared: Compare, add: Add
) -> None:
    for at, method in enumerate(("simcse", "d2cse")):
        for seed, key in enumerate(add(method, 0.3, 3)):
            test = {name: pair[at] + seed / 1000 for name, pair in scores.items()}
            evaluation = {"role": "evaluation", "suite": "geometry", "evaluates": key}
            add(method, 0.3, 1, kept=False, seed=seed, test=test, **evaluation)
    shown = compared("simcse", "d2cse", "--suite", "geometry")
    assert shown.splitlines()[-1].startswith(verdict)


@pytest.mark.slow
def test_what_cannot_be_compared_gets_one_sentence(
    harness: Harness, compared: Compare, store: Store, add: Add
) -> None:
    add("simcse", 0.3, 2)
    add("d2cse", 0.3, 2)
    add("diffcse", 0.3, 2, setting="sup")
    for encoder in ("tiny-bert", "mini-bert"):
        add("clsr", 0.3, 1, encoder=encoder)
        add("dcpcse", 0.3, 1, encoder=encoder, setting="sup")
        add("angle", 0.3, 2, encoder=encoder, protocol=PROTOCOL - (encoder == "tiny-bert"))
        add("arccse", 0.5, 2, encoder=encoder)
    add("consert", 0.3, 2, protocol=PROTOCOL - 1)
    earlier = f"consert (unsup, tiny-bert) was measured by protocol {PROTOCOL - 1}"
    for words, *parts in (
        ("3 19", "there is no row 19", "1 to 12"),
        ("0 1", "there is no row 0"),
        ("simcse d2cse --suite sts", "no scores of sts in common", "has graded; "),
        ("1 simcsee", '"simcsee" names no row', 'did you mean "simcse"?'),
        ("clsr dcpcse", "no setting and encoder in common; name two rows"),
        ("simcse consert", earlier),
    ):
        check_sentence(harness("compare", *words.split(), "--store", store.folder), *parts)
    today = compared("angle", "arccse")
    assert today.count("A: angle, 2 seeds, mini-bert, unsup") == today.count("A: ") == 1


def told(store: Store) -> list[str]:
    return verdicts(comparable_groups(store.read().table), store.kept_pairs)


def test_dev_alone_chooses_the_winner(store: Store, add: Add) -> None:
    """The best on test is another one, and is named as better all the same."""
    add("simcse", 3.0, 3, dev=60.0)
    add("d2cse", 0.3, 3, dev=50.0)
    lines = told(store)
    assert lines[0].startswith("simcse wins with the best dev score, 60.10±0.10 (graded-dev); ")
    assert lines[1].startswith("d2cse is better than simcse on graded: +")
    assert len(lines) == 2, "nothing is open that more seeds would resolve"


def test_who_cannot_be_told_apart_and_what_more_seeds_would_resolve(store: Store, add: Add) -> None:
    add("simcse", 0.30, 3, dev=60.0)
    add("d2cse", 0.302, 3, dev=50.0)
    add("pooling", 5.0, 1, steps=0, setting="sup")
    lines = told(store)
    assert lines[0].startswith("simcse unsup wins")
    assert any("cannot be told apart on graded" in line for line in lines)
    assert any(line.startswith("simcse unsup is better than pooling sup") for line in lines)
    assert any("seeds" in line and "tell" in line for line in lines[3:])


def test_each_encoder_has_a_winner(store: Store, add: Add) -> None:
    """A sweep of one configuration has nothing to compare; what has no dev score is named."""
    add("simcse", 0.3, 2, encoder="tiny-bert")
    [line] = told(store)
    assert line.endswith("It is the only one, so there is nothing to compare it with.")
    add("simcse", 0.3, 2, encoder="mini-bert")
    for encoder in ("tiny-bert", "mini-bert"):
        add("d2cse", 0.5, 2, encoder=encoder)
    winners = [line for line in told(store) if " wins with " in line]
    assert sorted(line.partition(":")[0] for line in winners) == ["On mini-bert", "On tiny-bert"]
    add("clsr", 0.3, 2, dev=float("nan"))
    [line] = (line for line in told(store) if line.startswith("Not compared, for want of"))
    assert "a dev score: clsr" in line


def test_as_many_seeds_as_are_needed_settle_it(store: Store, add: Add) -> None:
    """The proposed number of seeds makes the half interval smaller than the difference."""
    add("simcse", 0.30, 3, dev=60.0)
    add("d2cse", 0.33, 3, kept=False)
    parts = [(group.method, group.parts[0]) for group in comparable_groups(store.read().table)]
    pair = Compared(*stored_systems(parts, store.kept_pairs), "graded")
    n = seeds_needed(pair)
    assert n is not None
    scored = [system.scored["graded"].values for system in (pair.first, pair.second)]
    variance = np.mean([np.var(values, ddof=1) for values in scored])

    def half_interval(n: int) -> float:
        return float(stats.t.ppf(0.975, 2 * (n - 1)) * np.sqrt(2 * variance / n))

    assert half_interval(n) < abs(pair.value)
    assert n == 4 or half_interval(n - 1) >= abs(pair.value)
    sentence = (
        f"About {n} seeds of each would tell simcse from d2cse, if the difference stays as it is."
    )
    assert sentence in told(store)


def test_more_seeds_than_there_are_would_resolve_what_is_open(store: Store, add: Add) -> None:
    """Also where a difference is significant alone, and not among others (Holm)."""
    scores = {"simcse": (76.0, 76.5, 77.0), "clsr": (75.1, 75.6, 75.7)}
    others = dict.fromkeys(("esimcse", "arccse", "mixcse", "pcl"), (75.9, 76.5, 77.1))
    for method, values in {**scores, **others}.items():
        for number, value in enumerate(values):
            made = {"seed": number + 9 * (method != "simcse"), "test": {"graded": value}}
            add(method, 0.3, 1, 60.0 + (method == "simcse"), False, **made)
    lines = told(store)
    [line] = (line for line in lines if line.startswith("simcse and clsr cannot be told apart"))
    assert "which is significant alone, and not among all comparisons (Holm); other seeds" in line
    [proposed] = (line for line in lines if line.startswith("About ") and "clsr" in line)
    assert int(proposed.split()[1]) > 3


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(
    shown: Shown, store: Store, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes break between words, and a command at their end keeps a line of its own."""
    add("simcse", 0.3, 2)
    add("simcse", 0.3, 5, status="failed", reason="the loss is not finite any more after a while")
    lines = {}
    for width in ("70", "140"):
        monkeypatch.setenv("COLUMNS", width)
        out = shown("table", "--store", store.folder)
        lines[width] = out.splitlines()
        said = [line for line in lines[width] if "harness show" not in line]
        assert max(map(len, said)) <= int(width)
    assert len(lines["70"]) > len(lines["140"])
    notes = " ".join(lines["70"])
    assert "the loss is not finite any more after a while" in notes


@pytest.mark.process
def test_a_sweep_keeps_the_cosines_of_its_finals_and_ends_with_its_verdict(swept: Swept) -> None:
    out = swept.answer.out
    told = out[out.index("Which one won:") : out.index("Next:")]
    assert "simcse wins with the best dev score" in told
    assert "on graded. It is the only one" in told
    store = Store(swept.store)
    finals = [each.key for each in store.read().records() if each.role == "final"]
    assert len(finals) == 2
    assert all(store.kept_pairs(key, "graded").is_file() for key in finals)


def test_of_many_systems_those_with_the_best_are_compared(store: Store, add: Add) -> None:
    """The systems with the best dev scores are compared."""
    for number in range(11):
        add(f"method{number}", 0.3 + number / 10, 1, dev=60.0 - number, kept=False)
    lines = told(store)
    assert lines[0].startswith("method0 wins with the best dev score")
    assert "method8" in " ".join(lines)
    assert "method9" not in " ".join(lines)
    assert lines[-1] == "Not compared: 2 more, whose dev scores are lower."
