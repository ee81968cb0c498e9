"""A user's mistake gives one sentence and exit code 2, and nothing is written.

The sentence names the place, and the nearest valid name.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]

METHOD = """\
from harness import plugin


class Config(plugin.MethodConfig):
    pass


class Method(plugin.Method[Config]):
    config_type = Config
"""


def check_sentence(answer: Any, *parts: object) -> None:
    """Check that the exit code is 2, and that the one line on stderr has all the parts."""
    assert answer.code == 2, answer.out + answer.err
    assert answer.err.startswith("Error: ")
    assert answer.err.strip().count("\n") == 0, f"more than one line: {answer.err}"
    for part in parts:
        assert str(part) in answer.err


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """The path of a store that does not exist, neither before nor after the test."""
    folder = tmp_path / "store"
    yield folder
    assert not folder.exists(), "a refused command has made its store"


@pytest.fixture
def refused(harness: Any, store: Path) -> Refused:
    """refused(arguments, part, ...): check that `harness ARGUMENTS --store STORE` is refused.

    The sentence must have all the parts.
    """

    def call(arguments: list[object], *parts: object) -> None:
        check_sentence(harness(*arguments, "--store", store), *parts)

    return call


def line_of(path: Path, text: str) -> str:
    """`FILE, line N` for the first line that has this text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return f"{path}, line {next(number for number, line in enumerate(lines, 1) if text in line)}"


# Methods


@pytest.mark.parametrize("verb", ["run", "check", "sweep", "plan"])
def test_unknown_method_is_answered_with_the_nearest(
    verb: str, harness: Any, space: SpaceFile
) -> None:
    arguments = ["simcze", space()] if verb in ("sweep", "plan") else ["simcze"]
    check_sentence(harness(verb, *arguments), 'unknown method "simcze"', 'did you mean "simcse"?')


def test_unknown_method_in_a_space(refused: Refused, space: SpaceFile) -> None:
    path = space("  simcse:", "  simcze:")
    refused(
        ["sweep", path],
        line_of(path, "simcze"),
        'unknown method "simcze"',
        'did you mean "simcse"?',
    )


def test_method_that_the_space_does_not_have(refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", "pooling", space()], 'no method "pooling"', "simcse")


def test_folder_without_a_method(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(["run", tmp_path / "empty"], tmp_path / "empty", "holds no method", "__init__.py")


def test_file_that_is_no_python(harness: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    check_sentence(harness("check", tmp_path / "notes.txt"), "notes.txt", "not a Python file")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "import no_such_package_anywhere\n",
            "ModuleNotFoundError: No module named 'no_such_package_anywhere'",
        ),
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('of no use')\n", "RuntimeError: of no use"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
    ],
    ids=["missing package", "syntax", "raises", "exits"],
)
def test_plugin_that_fails_to_import(
    source: str, reason: str, refused: Refused, tmp_path: Path
) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(source)
    refused(["run", plugin], plugin, "fails to import", reason)


@pytest.mark.parametrize(
    "source",
    [
        "",
        METHOD.replace("class Method", "class Methods"),
        "from harness.plugin import Method\n",
        "Method = 3\n",
    ],
    ids=["empty", "other name", "the base class", "no class"],
)
def test_plugin_without_class_method(source: str, refused: Refused, tmp_path: Path) -> None:
    plugin = tmp_path / "hollow.py"
    plugin.write_text(source)
    refused(["run", plugin], plugin, "holds no method", "class Method")


# A space's form


@pytest.mark.parametrize(
    ("old", "new", "unknown", "nearest"),
    [
        ("encoders:", "encoder:", "encoder", "encoders"),
        ("    grid:", "    gird:", "gird", "grid"),
        ("metric: graded-dev", "metrik: graded-dev", "metrik", "metric"),
        ("final: {seeds", "final: {seed", "seed", "seeds"),
    ],
)
def test_unknown_key_in_a_space(
    old: str, new: str, unknown: str, nearest: str, refused: Refused, space: SpaceFile
) -> None:
    path = space(old, new)
    refused(["sweep", path], line_of(path, new), f"{unknown}: ", f'did you mean "{nearest}"?')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("suite: graded\n", "suite: graded\nsetting: sup\n"),
        ("    grid:\n", "    grid:\n      learning_rate: [1e-3]\n"),
        ("  simcse:\n", "  simcse: {}\n  simcse:\n"),
    ],
)
def test_duplicate_key(old: str, new: str, refused: Refused, space: SpaceFile) -> None:
    path = space(old, new)
    refused(["sweep", path], f"{path}, line ", "is written twice")


def test_duplicate_key_names_the_second_line(refused: Refused, space: SpaceFile) -> None:
    path = space("encoders:", "suite: sts\nencoders:")
    refused(["sweep", path], line_of(path, "suite: sts"), "suite is written twice")


def test_space_that_is_not_there(refused: Refused, tmp_path: Path) -> None:
    refused(["sweep", tmp_path / "none.yaml"], tmp_path / "none.yaml", "no such file")


def test_space_that_is_no_text(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"set: \xff\xfe\n")
    refused(["sweep", tmp_path / "bytes.yaml"], "bytes.yaml", "cannot be read")


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("methods: [simcse\nset: {}\n", 2),
        ("set: {}\n\tmethods: {}\n", 2),
        ("set: {a: 1\n", 2),
        ("a: 1\nb: 'c\n", 3),
    ],
)
def test_broken_yaml_names_the_line(
    broken: str, line: int, refused: Refused, tmp_path: Path
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(broken)
    refused(["sweep", path], f"{path}, line {line}: not valid YAML")


@pytest.mark.parametrize(
    "text",
    [
        "a: 2026-13-45\n",
        "a: \x07\n",
        "a: &loop [*loop]\n",
        "a: !!python/object:os.system {}\n",
        "? [1]\n: 2\n",
    ],
    ids=["no such date", "control character", "endless", "foreign tag", "list as key"],
)
def test_odd_yaml(text: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    refused(["sweep", path], path)


@pytest.mark.parametrize("text", ["", "just words\n", "[1, 2]\n"])
def test_space_that_is_no_mapping(text: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(text)
    refused(["sweep", path], path, "must be a mapping of keys to values")


@pytest.mark.parametrize("key", ["encoders", "methods"])
def test_space_without_a_needed_key(key: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    whole = {"encoders": "encoders: [tiny-bert]\n", "methods": "methods: {pooling: {}}\n"}
    path.write_text("".join(text for name, text in whole.items() if name != key))
    refused(["sweep", path], path, key, "required")


def test_empty_grid(refused: Refused, space: SpaceFile) -> None:
    path = space("    grid:\n      learning_rate: [1e-4, 5e-4]\n", "    grid: {}\n")
    refused(["sweep", path], line_of(path, "grid"), "the grid is empty")


def test_empty_axis(refused: Refused, space: SpaceFile) -> None:
    path = space("[1e-4, 5e-4]", "[]")
    refused(["sweep", path], line_of(path, "learning_rate"), "learning_rate", "at least 1 item")


def test_empty_span(refused: Refused, space: SpaceFile) -> None:
    path = space("[1e-4, 5e-4]", "{from: 0.2, to: 0.1, step: 0.01}")
    refused(["sweep", path], line_of(path, "learning_rate"), "there is no value from")


def test_between_without_a_round_before(refused: Refused, space: SpaceFile) -> None:
    path = space("[1e-4, 5e-4]", "{between: best_two, step: 0.01}")
    refused(["sweep", path], line_of(path, "learning_rate"), "between needs a round before it")


def test_grid_beside_ranges(refused: Refused, space: SpaceFile) -> None:
    path = space(
        "    grid:",
        "    ranges: {temperature: {low: 0.1, high: 0.2}}\n"
        "    sampler: {configurations: 2}\n"
        "    grid:",
    )
    refused(["sweep", path], line_of(path, "simcse"), "grid and ranges exclude each other")


def test_ranges_without_a_sampler(refused: Refused, space: SpaceFile) -> None:
    path = space(
        "    grid:\n      learning_rate: [1e-4, 5e-4]",
        "    ranges: {learning_rate: {low: 0.1, high: 0.2}}",
    )
    refused(["sweep", path], line_of(path, "simcse"), "ranges need a sampler")


@pytest.mark.parametrize(
    ("axis", "reason"),
    [
        ("learning_rate: {low: 0.1, high: 0.01}", "learning_rate"),
        ("learning_rate: []", "learning_rate"),
        ("learning_rate: {low: 0.0, high: 0.01, log: true}", "learning_rate"),
        ("learning_rate: {low: 0.001, high: 0.01, log: true, step: 0.001}", "learning_rate"),
        ("batch_size: {low: 8, high: 64}", "batch_size"),
        ("batch_size: {low: 8, high: 64, log: true}", "batch_size"),
        ("learning_rat: {low: 0.1, high: 0.2}", 'did you mean "learning_rate"?'),
        ("learning_rate: {low: -1, high: 0.2}", "greater than 0"),
    ],
)
def test_range_that_no_sampler_can_draw_from(
    axis: str, reason: str, refused: Refused, space: SpaceFile
) -> None:
    """`harness plan` runs nothing, and it finds the mistake."""
    ranges = f"    ranges:\n      {axis}\n    sampler: {{configurations: 2}}\n"
    path = space("    grid:\n      learning_rate: [1e-4, 5e-4]\n", ranges)
    refused(["plan", path], line_of(path, axis), reason)


@pytest.mark.parametrize(
    ("suite", "metric", "dev"),
    [("graded", "graded", "graded-dev"), ("sts", "stsb", "stsb-dev"), ("sts", "avg", "stsb-dev")],
)
def test_test_score_as_selector(
    suite: str, metric: str, dev: str, refused: Refused, space: SpaceFile
) -> None:
    path = space("suite: graded\n", f"suite: {suite}\n", "metric: graded-dev", f"metric: {metric}")
    refused(
        ["sweep", path],
        line_of(path, "metric"),
        f'"{metric}" is a test score',
        "never select",
        f'"{dev}"',
    )


def test_unknown_metric(refused: Refused, space: SpaceFile) -> None:
    path = space("metric: graded-dev", "metric: accuracy")
    refused(["sweep", path], line_of(path, "metric"), 'no dev score "accuracy"', "graded-dev")


def test_minimum_as_selector(refused: Refused, space: SpaceFile) -> None:
    path = space("metric: graded-dev", "metric: graded-dev, mode: min")
    refused(["sweep", path], line_of(path, "metric"), "mode", "'max'")


def test_unknown_suite(refused: Refused, space: SpaceFile) -> None:
    path = space("suite: graded\n", "suite: grated\n")
    refused(
        ["sweep", path], line_of(path, "suite"), 'unknown suite "grated"', 'did you mean "graded"?'
    )


# A space's values


def test_unknown_hyperparameter_in_a_grid(refused: Refused, space: SpaceFile) -> None:
    path = space("learning_rate", "learning_rat")
    refused(
        ["sweep", path],
        line_of(path, "learning_rat"),
        '"learning_rat"',
        'did you mean "learning_rate"?',
    )


def test_unknown_hyperparameter_for_all_methods(refused: Refused, space: SpaceFile) -> None:
    path = space("max_steps", "max_step")
    refused(["sweep", path], line_of(path, "max_step"), '"max_step"', 'did you mean "max_steps"?')


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("[1e-4, 5e-4]", "[1e-4, fast]", "learning_rate = 'fast'", "valid number"),
        ("[1e-4, 5e-4]", "[1e-4, -5e-4]", "learning_rate = '-5e-4'", "greater than 0"),
        ("[1e-4, 5e-4]", "[.nan]", "learning_rate = nan", "finite number"),
        ("batch_size: 8", "batch_size: 1", "batch_size = 1", "greater than or equal to 2"),
        ("batch_size: 8", "batch_size: 8.5", "batch_size = 8.5", "integer"),
        ("precision: fp32", "precision: fp8", "precision = 'fp8'", "'bf16'"),
    ],
)
def test_value_that_the_method_refuses(
    old: str, new: str, name: str, reason: str, refused: Refused, space: SpaceFile
) -> None:
    path = space(old, new)
    refused(["sweep", path], line_of(path, new), name, reason)


def test_setting_that_the_method_has_not(refused: Refused, space: SpaceFile) -> None:
    path = space("setting: unsup", "setting: semisup", "  simcse:", "  d2cse:")
    refused(["sweep", path], line_of(path, "d2cse"), "setting = 'semisup'", "'unsup'")


def test_encoder_among_the_hyperparameters(refused: Refused, space: SpaceFile) -> None:
    path = space("learning_rate: [1e-4, 5e-4]", "encoder: [tiny-bert]")
    refused(["sweep", path], line_of(path, "      encoder"), "for the whole space")


@pytest.mark.parametrize("numbers", ["[]", "[one]", "[-1]", f"[{2**32}]"])
@pytest.mark.parametrize("axis", ["seeds", "subsets"])
def test_seeds_and_subsets_of_a_space(
    axis: str, numbers: str, refused: Refused, space: SpaceFile
) -> None:
    axes = {"seeds": "[0]", axis: numbers}
    path = space(
        "final: {seeds: [0, 1]}",
        f"final: {{{', '.join(f'{name}: {axes[name]}' for name in axes)}}}",
    )
    refused(["plan", path], line_of(path, "final"), axis)


@pytest.mark.parametrize("key", ["seed", "subset"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("learning_rate: [1e-4, 5e-4]", "KEY: [0, 1]"),
        ("    grid:\n      learning_rate: [1e-4, 5e-4]", "    rounds:\n      - KEY: [0, 1]"),
        (
            "    grid:\n      learning_rate: [1e-4, 5e-4]",
            "    ranges:\n      KEY: {low: 0, high: 4, step: 1}\n    sampler: {configurations: 2}",
        ),
        ("    grid:", "    set:\n      KEY: 1\n    grid:"),
        ("set: {", "set: {KEY: 1, "),
    ],
    ids=["grid", "rounds", "ranges", "set", "set for all"],
)
def test_seed_or_subset_among_the_hyperparameters(
    old: str, new: str, key: str, refused: Refused, space: SpaceFile
) -> None:
    path = space(old, new.replace("KEY", key))
    refused(
        ["plan", path],
        line_of(path, f"{key}:"),
        f"the {key} is not a hyperparameter",
        f"`{key}s:` under search",
    )


@pytest.mark.parametrize("key", ["seed", "subset"])
def test_set_of_the_seed_or_subset_of_a_sweep(key: str, refused: Refused, space: SpaceFile) -> None:
    refused(
        ["sweep", space(), "--set", f"{key}=1"],
        f"--set {key}",
        "not a hyperparameter",
        f"`{key}s:`",
        f"--{key}s",
    )


# Options


@pytest.mark.parametrize("text", ["learning_rate", "=3", "learning_rate 3e-5"])
def test_set_without_equals_sign(text: str, refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", space(), "--set", text], f"--set {text}", "key=value")


@pytest.mark.parametrize("value", ["[1, 2", "2026-13-45"])
def test_set_to_what_is_no_yaml(value: str, refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", space(), "--set", f"learning_rate={value}"], "--set", "not valid YAML")


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_set_of_an_unknown_key(verb: str, refused: Refused, space: SpaceFile) -> None:
    arguments = (
        [space()]
        if verb == "sweep"
        else ["simcse", "--encoder", "tiny-bert", "--set", "suite=graded"]
    )
    refused(
        [verb, *arguments, "--set", "learning_rat=3e-5"],
        '"learning_rat"',
        'did you mean "learning_rate"?',
    )


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_set_to_a_value_out_of_range(verb: str, refused: Refused, space: SpaceFile) -> None:
    arguments = (
        [space()]
        if verb == "sweep"
        else ["simcse", "--encoder", "tiny-bert", "--set", "suite=graded"]
    )
    refused(
        [verb, *arguments, "--set", "batch_size=1"], "batch_size = 1", "greater than or equal to 2"
    )


@pytest.mark.parametrize("numbers", ["a,b", "0;1", "0,,1", "1.5", "0,-1", "4294967296"])
@pytest.mark.parametrize("option", ["--seeds", "--subsets"])
def test_bad_seeds_and_subsets(
    option: str, numbers: str, refused: Refused, space: SpaceFile
) -> None:
    refused(["plan", space(), f"{option}={numbers}"], f"{option} {numbers}", "whole numbers")


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_bad_seed_of_one_run(seed: str, refused: Refused) -> None:
    arguments = ["--encoder", "tiny-bert", "--set", "suite=graded"]
    refused(["run", "pooling", *arguments, f"--seed={seed}"], "seed", seed)


@pytest.mark.parametrize("verb", ["sweep", "plan"])
def test_last_argument_is_no_yaml_file(verb: str, refused: Refused) -> None:
    refused([verb, "simcse"], '"simcse" is not a search space', ".yaml")


def test_unknown_search_space(refused: Refused) -> None:
    refused(["plan", "simcse", "quickstrat"], '"quickstrat"', 'did you mean "quickstart"?')


def test_unknown_paper(refused: Refused) -> None:
    refused(["table", "--paper", "difaug"], '"difaug"', 'did you mean "diffaug"?')


def test_table_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    refused(
        ["table", "--output", tmp_path / "none" / "table.txt"], "table.txt", "cannot be written"
    )


def test_parquet_on_the_screen(refused: Refused) -> None:
    refused(["table", "--format", "parquet"], "--output")


def test_show_of_an_unknown_key(refused: Refused, store: Path) -> None:
    refused(["show", "4f2a"], store, '"4f2a"', "harness list trials")


def test_show_of_an_ambiguous_key(harness: Any, swept: Any) -> None:
    check_sentence(
        harness("show", "", "--store", swept.store), "4 trials have keys", "give more characters"
    )


@pytest.mark.parametrize("name", ["two-words", "1st", "a b"])
def test_new_with_a_bad_name(name: str, harness: Any, tmp_path: Path) -> None:
    check_sentence(harness("new", tmp_path / name), f'"{name}" cannot be the name of a method')
    assert not (tmp_path / name).exists()


def test_new_on_an_existing_path(harness: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    check_sentence(harness("new", tmp_path / "mine"), tmp_path / "mine", "exists already")
    assert not list((tmp_path / "mine").iterdir())


def test_new_below_a_file(harness: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_sentence(harness("new", tmp_path / "file" / "mine"), "cannot be written")


# Things that are missing


def test_unknown_encoder(refused: Refused, space: SpaceFile) -> None:
    refused(
        ["sweep", space("[tiny-bert]", "[tiny-brt]")],
        '"tiny-brt"',
        "was not found",
        'did you mean "tiny-bert"?',
    )


def test_unknown_encoder_of_one_run(refused: Refused) -> None:
    refused(
        ["run", "pooling", "--encoder", "tiny-brt", "--set", "suite=graded"],
        "tiny-brt",
        'did you mean "tiny-bert"?',
    )


def test_folder_that_is_no_encoder(refused: Refused, tmp_path: Path) -> None:
    refused(
        ["run", "pooling", "--encoder", tmp_path, "--set", "suite=graded"],
        tmp_path,
        "no config.json",
    )


def test_unknown_corpus(refused: Refused, space: SpaceFile) -> None:
    path = space("sentences: graded-sentences", "sentences: graded-sentence")
    refused(["sweep", path], 'unknown corpus "graded-sentence"', 'did you mean "graded-sentences"?')


def test_corpus_file_that_is_not_there(refused: Refused, tmp_path: Path) -> None:
    arguments = [
        "--encoder",
        "tiny-bert",
        "--set",
        "suite=graded",
        "--set",
        f"sentences={tmp_path}/none.txt",
    ]
    refused(["run", "simcse", *arguments], f"{tmp_path}/none.txt", "no such file")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.txt", b"", "holds no sentence"),
        ("latin.txt", b"fine\ncaf\xe9\n", "line 2: not UTF-8"),
    ],
)
def test_corpus_file_that_cannot_be_read(
    name: str, content: bytes, reason: str, refused: Refused, space: SpaceFile, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    refused(
        ["sweep", space("sentences: graded-sentences", f"sentences: {tmp_path / name}")],
        name,
        reason,
    )


def test_unwritable_store(harness: Any, space: SpaceFile, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = tmp_path / "file" / "store"
    run = ["run", "pooling", "--encoder", "tiny-bert", "--set", "suite=graded"]
    for arguments in (["sweep", space()], run):
        check_sentence(harness(*arguments, "--store", store), store, "cannot be written", "--store")


@pytest.mark.parametrize("verb", ["plan", "table", "list", "show"])
def test_store_that_cannot_be_read(
    verb: str, harness: Any, space: SpaceFile, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    arguments = {"plan": [space()], "list": ["trials"], "show": ["4f2a"], "table": []}[verb]
    check_sentence(harness(verb, *arguments, "--store", tmp_path / "file"), tmp_path / "file")


# One test in a process of its own for each way to end


def check_process(answer: Any, store: Path, *parts: object) -> None:
    check_sentence(answer, *parts)
    assert "Traceback" not in answer.out + answer.err
    assert not store.exists()


def test_process_refuses_what_it_parses(process: Any, space: SpaceFile, tmp_path: Path) -> None:
    path, store = space("learning_rate", "learning_rat"), tmp_path / "store"
    answer = process("sweep", path, "--store", store)
    check_process(answer, store, line_of(path, "learning_rat"), 'did you mean "learning_rate"?')


@pytest.mark.slow
def test_process_refuses_a_missing_file_without_waiting_for_the_hub(
    process: Any, tmp_path: Path
) -> None:
    """The answer comes at once, although the Hub is asked and cannot be reached."""
    mirror, store = tmp_path / "mirror", tmp_path / "store"
    mirror.mkdir()
    environment = {
        "HARNESS_HUB": str(mirror),
        "HF_HUB_OFFLINE": None,
        "HF_HOME": str(tmp_path / "hub"),
    }
    answer = process(
        "run",
        "simcse",
        "--encoder",
        "tiny-bert",
        "--store",
        store,
        environment=environment,
        timeout=600,
    )
    check_process(answer, store, mirror, "was not found", "set HARNESS_HUB")


def test_process_refuses_a_mirror_that_is_no_folder(
    process: Any, space: SpaceFile, tmp_path: Path
) -> None:
    store, environment = tmp_path / "store", {"HARNESS_HUB": str(tmp_path / "none")}
    answer = process("sweep", space(), "--store", store, environment=environment)
    check_process(answer, store, f"HARNESS_HUB names {tmp_path / 'none'}", "no folder")


@pytest.mark.slow
def test_process_refuses_resources_that_no_machine_has(
    process: Any, space: SpaceFile, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    answer = process("sweep", space(), "--store", store, "--cpus-per-trial", 999)
    check_process(answer, store, "no machine has 999 CPUs", "lower --cpus-per-trial")
