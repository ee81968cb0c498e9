"""A search space that is no search space: each mistake is named with its line.

`harness plan` finds them all; `harness sweep` reads the space by the same function.
"""

import pytest

from tests.cli.conftest import LineOf, Refused, SpaceFile

GRID = "    grid:\n      learning_rate: [1e-4, 5e-4]\n"
VALUES = "[1e-4, 5e-4]"
MANY = "more than 10000 configurations"
NEW = "the first line of the new text"


def of_key(key: str, value: str) -> str:
    return f"    {key}: {value}\n"


def rounds(*axes: str) -> str:
    return "    rounds:\n" + "".join(f"      - {axis}\n" for axis in axes)


def ranges(choice: str, sampler: str = "{configurations: 2}") -> str:
    return f"    ranges:\n      {choice}\n    sampler: {sampler}\n"


def below(choice: str, sampler: str = "{configurations: 2}", first: str = "") -> str:
    """A number, a word, and a third range that may depend on them."""
    return (
        f"    ranges:\n      temperature: {{low: 0.01, high: 0.1{first}}}\n"
        f"      head: [tanh, batchnorm]\n      learning_rate: {choice}\n    sampler: {sampler}\n"
    )


def hundred(key: str, last: float = 0.101) -> str:
    return f"      {key}: {{from: 0.001, to: {last}, step: 0.001}}\n"


ANY = "{low: 1.0e-5, high: 1.0e-3}"
TWO, RATES = "learning_rate: [0.1, 0.2]", ("learning_rate", "temperature")
TRAINED = "    encoders: [{encoder: tiny-bert, trained_by: sbert, setting: sup}]\n    grid:"
TEXTS = [
    # Keys
    ("encoders:", "encoder:", NEW, 'encoder: unknown key; did you mean "encoders"?'),
    ("    grid:", "    gird:", NEW, 'did you mean "grid"?'),
    ("metric: graded-dev", "metrik: graded-dev", NEW, 'did you mean "metric"?'),
    ("final: {seeds", "final: {seed", NEW, 'did you mean "seeds"?'),
    ("suite: graded\n", "suite: graded\nsuite: graded \n", "graded \n", "is written twice"),
    (GRID, f"{GRID}      learning_rate: [1e-3]\n", "[1e-3]", "is written twice"),
    ("  simcse:\n", "  simcse: {}\n  simcse: \n", "simcse: \n", "simcse is written twice"),
    ("encoders: [tiny-bert]\n", "", "", "encoders: Field required"),
    # What selects
    ("metric: graded-dev", "metric: accuracy", NEW, 'no dev score "accuracy"; valid: graded-dev'),
    ("metric: graded-dev", "metric: graded-dev, mode: min", NEW, "mode", "'max'"),
    ("suite: graded\n", "suite: grated\n", NEW, 'unknown suite "grated"; did you mean "graded"?'),
    ("suite: graded\n", "suite: retrieval\n", NEW, "sts, graded, transfer-senteval, or a suite"),
    # Axes
    (GRID, "    grid: {}\n", NEW, "the grid is empty"),
    (VALUES, "[]", NEW, "learning_rate", "at least 1 item"),
    (VALUES, "{from: 0.2, to: 0.1, step: 0.01}", NEW, "there is no value from"),
    (VALUES, "{between: best_two, step: 0.01}", NEW, "between needs a round before it"),
    (VALUES, "{low: 1e-4, high: 5e-4}", NEW, "low: unknown key; valid: between, from, step, to"),
    (GRID, "    grid: [1]\n", NEW, "a mapping of keys to values"),
    (VALUES, "{from: .nan, to: 1, step: 1}", NEW, "finite number"),
    (VALUES, "{from: 0.1, to: 1, step: -.inf}", NEW, "finite number"),
    (VALUES, "{from: 0.1, to: 1, step: 0}", NEW, "greater than 0"),
    (VALUES, "{from: 0.1, to: 1, step: true}", NEW, "a number is expected, not true"),
    (VALUES, "{from: 0.1, to: 1}", NEW, "required"),
    (VALUES, "{from: 0.1, to: 1, step: 1, by: 2}", NEW, "unknown key"),
    (VALUES, "{from: 0.1, to: 1, step: 1.0e-9}", NEW, MANY),
    (VALUES, "{from: 1.0e-300, to: 1.0e+300, step: 1.0e-308}", NEW, MANY),
    (VALUES, "{between: best_three, step: 1}", NEW, "best_two"),
    (VALUES, "null", NEW, "list"),
    (VALUES, "[[0.1]]", NEW, "valid number"),
    (VALUES, "[true]", NEW, "a number is expected, not true"),
    # Rounds
    (GRID, rounds("learning_rate: {from: 1, to: 2, step: 1.0e-9}"), "1.0e-9", MANY),
    (GRID, rounds(TWO, "learning_rate: {between: best_two, step: 1.0e-12}"), "1.0e-12", MANY),
    (GRID, rounds("precision: [fp32, bf16]", "precision: {between: best_two, step: 0.1}"),
     "step: 0.1", "between needs numbers"),
    (GRID, rounds(TWO, "temperature: [0.1]", "learning_rate: {between: best_two, step: 0.01}"),
     "best_two", "between needs a round before it"),
    (GRID, "    rounds: []\n", NEW, "at least 1 item"),
    (GRID, "    rounds: [{}]\n", NEW, "the round is empty"),
    (GRID, "    rounds: [null]\n", NEW, "a mapping of keys to values"),
    # Ranges and samplers
    ("    grid:", ranges("temperature: {low: 0.1, high: 0.2}") + "    grid:", "simcse", "exclude"),
    (GRID, of_key("ranges", f"{{learning_rate: {ANY}}}"), "simcse", "ranges need a sampler"),
    (GRID, ranges("learning_rate: {low: 0.1, high: 0.01}"), "low:", "learning_rate"),
    (GRID, ranges("learning_rate: []"), "learning_rate", "learning_rate"),
    (GRID, ranges("learning_rate: {low: 0.0, high: 0.01, log: true}"), "low:", "learning_rate"),
    (GRID, ranges("learning_rate: {low: 1e-3, high: 1e-2, log: true, step: 1e-3}"), "low:", ""),
    (GRID, ranges("batch_size: {low: 8.5, high: 64}"), "low:", "batch_size"),
    (GRID, ranges("batch_size: {low: 8, high: 64, step: 0.5}"), "low:", "batch_size"),
    (GRID, ranges("learning_rat: {low: 0.1, high: 0.2}"), "low:", 'did you mean "learning_rate"?'),
    (GRID, ranges("learning_rate: {low: -1, high: 0.2}"), "low:", "greater than 0"),
    (GRID, ranges("learning_rate: {low: 0.1, high: .inf}"), "low:", "finite"),
    (GRID, ranges("learning_rate: {low: true, high: 2}"), "low:", "not true"),
    (GRID, ranges("learning_rate: {low: 0.1, high: 1, log: 2}"), "low:", "methods.simcse"),
    (GRID, ranges("learning_rate: [true, false]"), "true, false", "methods.simcse"),
    *(
        (GRID, below(ANY, sampler), "sampler:", reason)
        for sampler, reason in (
            ("{name: tpe}", "a sampler needs a budget; write configurations, hours, or both"),
            ("{hours: 0}", "hours: Input should be greater than 0"),
            ("{hours: true}", "a number is expected, not true"),
            ("{configuration: 2}", 'did you mean "configurations"?'),
            ("{name: cmaes, configurations: 2}", "'cma-es'"),
            ("{configurations: true}", "methods.simcse"),
            ("{configurations: 1.5}", "methods.simcse"),
            ("{configurations: 99999999999999999999999}", "methods.simcse"),
            ("{configurations: 1, seed: -1}", "methods.simcse"),
            ("[]", "methods.simcse"),
        )
    ),
    *(
        (GRID, below(choice), choice, reason)
        for choice, reason in (
            ("{low: 1.0e-5, high: 1.0e-3, when: {hed: tanh}}",
             'when names "hed", which is no range above this one; above it are: temperature, '),
            ("{values: [1.0e-5], when: {head: relu}}", "head is never 'relu'; its values: tanh, "),
            ("{values: [1.0e-5], when: {temperature: 7}}", "is never 7; its values: 0.01"),
            ("{values: [1.0e-5], when: {head: []}}", "at least 1 item"),
            ("{values: [], when: {head: tanh}}", "at least 1 item"),
            ("{values: [fast], when: {head: tanh}}", "learning_rate = 'fast'"),
            ("{low: 1.0e-5, high: 1.0e-3, wen: {head: tanh}}", 'did you mean "when"?'),
        )
    ),
    (GRID, below(ANY, first=", when: {head: tanh}"), "when", 'when names "head", which is no'),
    (GRID, below("{values: [1.0e-5], when: {temperature: 0.04}}", first=", step: 0.02"),
     "when: {temperature: 0.04}", "is never 0.04; its values: 0.01 to 0.1, step 0.02"),
    # Pruners and objectives
    *(
        ("encoders:", f"pruner: {pruner}\nencoders:", NEW, reason)
        for pruner, reason in (
            ("ash", 'unknown pruner "ash"; did you mean "asha"?'),
            ("{name: halving}", 'unknown pruner "halving"; valid: asha, hyperband, median'),
            ("hyperband", "last_evaluation"),
            ("{keep_percent: 25}", 'unknown pruner "None"'),
            ("3", 'unknown pruner "3"'),
            ("{name: asha, reduction_facto: 2}", 'did you mean "reduction_factor"?'),
            ("{name: asha, reduction_factor: 1}", "greater than or equal to 2"),
            ("{name: median, first_evaluation: 0}", "greater than or equal to 1"),
            ("{name: percentile, keep_percent: 100}", "less than 100"),
            ("{name: wilcoxon, p_threshold: 0}", "greater than 0"),
            ("wilcoxon", "wilcoxon cannot decide before 4 seeds with a p_threshold of 0.1"),
        )
    ),
    *(
        ("select: {metric: graded-dev}", f"select: {select}", NEW, reason)
        for select, reason in (
            ("[dev]", "a list of objectives is [dev, cost]"),
            ("[dev, price]", "a list of objectives is [dev, cost]"),
            ("[graded, cost]", '"graded" is a test score'),
        )
    ),
    ("select: {metric: graded-dev}", "select: [dev, cost]\npruner: asha", "pruner",
     "a pruner looks at dev alone"),
    # Values of a method
    ("learning_rate", "learning_rat", NEW, '"learning_rat"', 'did you mean "learning_rate"?'),
    ("max_steps", "max_step", NEW, '"max_step"', 'did you mean "max_steps"?'),
    (VALUES, "[1e-4, fast]", NEW, "learning_rate = 'fast'", "valid number"),
    (VALUES, "[1e-4, -5e-4]", NEW, "learning_rate = '-5e-4'", "greater than 0"),
    (VALUES, "[.nan]", NEW, "learning_rate = nan", "finite number"),
    ("batch_size: 8", "batch_size: 1", NEW, "batch_size = 1", "greater than or equal to 2"),
    ("batch_size: 8", "batch_size: true", NEW, "batch_size = True"),
    ("precision: fp32", "precision: fp8", NEW, "precision = 'fp8'", "'bf16'"),
    ("max_steps: 2", "max_steps: 18446744073709551616", NEW, "beyond 64 bits"),
    ("max_steps: 2", "epochs: .inf", NEW, "epochs = inf"),
    (f"learning_rate: {VALUES}", "encoder: [tiny-bert]", NEW, "for the whole space"),
    ("  simcse:", "  simcze:", NEW, 'unknown method "simcze"', 'did you mean "simcse"?'),
    *(
        (old, new.replace("KEY", key), f"{key}:", f"the {key} is not a hyper", f"`{key}s:`")
        for key in ("seed", "subset")
        for old, new in (
            (f"learning_rate: {VALUES}", "KEY: [0, 1]"),
            (GRID, rounds("KEY: [0, 1]")),
            (GRID, ranges("KEY: {low: 0, high: 4, step: 1}")),
            ("    grid:", "    set:\n      KEY: 1\n    grid:"),
            ("set: {", "set: {KEY: 1, "),
        )
    ),
    *(
        ("final: {seeds: [0, 1]}", f"final: {{{axes}}}", "final", "seeds" if axis else "subsets")
        for numbers in ("[]", "[one]", "[-1]", f"[{2**32}]")
        for axis, axes in ((1, f"seeds: {numbers}"), (0, f"seeds: [0], subsets: {numbers}"))
    ),
    # Settings, encoders and variants
    ("setting: unsup", "setting: unsupervised", NEW, "'unsup'"),
    ("setting: unsup", "setting: [unsup, super]", NEW, "'unsup'"),
    ("setting: unsup", "setting: []", NEW, "at least 1 item"),
    ("    grid:", "    setting: supper\n    grid:", NEW, "'unsup'"),
    ("methods:\n", "methods:\n  diffaug: {setting: unsup}\n", "diffaug", "setting = 'unsup'"),
    ("    grid:", "    encoders: []\n    grid:", NEW, "at least 1 item"),
    *(
        (GRID, f"    {variants}\n", NEW, part)
        for variants, part in (
            ("variants: {}", "at least 1 item"),
            ("variants: {a: 3}", "a mapping of keys to values"),
            ("variants: {64: {batch_size: 64}}", 'write "64" in quotes'),
            ("variants: {'': {batch_size: 64}}", "the name of a variant is a text"),
            ("variants: {a: {batch_siz: 64}}", 'did you mean "batch_size"?'),
            ("variants: {a: {batch_size: many}}", "batch_size = 'many'"),
            ("variants: {a: {setting: sup}}", "setting is not a hyperparameter"),
            ("variants: {a: {encoder: x}}", "write `encoders:`"),
            ("variants: {a: {seed: 1}}", "the seed is not a hyperparameter"),
            ("variant: {a: {batch_size: 64}}", 'did you mean "variants"?'),
        )
    ),
    (GRID, "    variants:\n      good: {epochs: 2}\n      bad:\n        epochs: 0\n",
     "epochs: 0", "variants.bad.epochs", "greater than 0"),
    ("  simcse:\n" + GRID,
     "  diffcse:\n    variants:\n      next: {objective: none, contrastive: false}\n",
     "next:", "methods.diffcse.variants.next", "discriminator"),
    ("    grid:", "    variants: {a: {learning_rate: 1e-3}}\n    grid:", NEW,
     "learning_rate is searched as well"),
    ("    grid:", "    variants:\n      a: {}\n      a: {epochs: 2}\n    grid:", "a: {epochs",
     "a is written twice"),
    *(
        ("    grid:", TRAINED.replace(old, new), NEW, part)
        for old, new, part in (
            ("trained_by: sbert", "trained_by: sbet", 'did you mean "sbert"?'),
            ("trained_by: sbert", "traned_by: sbert", 'did you mean "trained_by"?'),
            ("setting: sup", "setting: unsup", "sbert: setting = 'unsup'"),
            ("setting: sup", "sting: sup", 'did you mean "setting"?'),
            ("sbert, setting: sup", "pooling", "pooling does not train its encoder"),
            ("tiny-bert, trained_by", "3, trained_by", "valid string"),
        )
    ),
]  # fmt: skip
"""A text of a valid space, what is in its place, the line that the sentence names, and its parts"""


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case[1].strip()[:40])
def test_a_mistake_is_named_with_its_line(
    case: tuple[str, ...], refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    old, new, line, *parts = case
    path = space(old, new)
    text = new.partition("\n")[0].strip() if line is NEW else line
    refused(["plan", path], line_of(path, text) if text else path, *parts)


@pytest.mark.slow
def test_part_of_another_kind(refused: Refused, space: SpaceFile) -> None:
    for old, new in (
        *(("[42]", seeds) for seeds in ("[true]", "[1.5]", "[.inf]", "[[1]]", "null", "{a: 1}")),
        *(("setting: unsup", f"setting: {kind}") for kind in ("[[unsup]]", "true", "!!binary Y")),
        *(("setting: unsup", f"{key}: unsup") for key in ("3", "null", "2020-01-01")),
        *(("suite: graded\n", f"suite: {kind}\n") for kind in ("[graded]", "null")),
        *(("{metric: graded-dev}", kind) for kind in ("graded-dev", "{metric: 3}")),
        *(("[tiny-bert]", kind) for kind in ("tiny-bert", "[3]", "[null]", "[true]", "[]")),
        *(("  simcse:", f"  {key}:") for key in ("3", "null", "../simcse", "m" * 1000)),
        (GRID, "    - 1\n"),
        ("sentences: graded-sentences", "sentences: 3"),
        (f"learning_rate: {VALUES}", "3: [1]"),
    ):
        path = space(old, new)
        refused(["plan", path], path)


def test_test_score_as_selector(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    for suite, metric, dev in (("graded", "graded", "graded-dev"), ("sts", "avg", "stsb-dev")):
        changes = ("suite: graded\n", f"suite: {suite}\n", "metric: graded-dev")
        path = space(*changes, f"metric: {metric}")
        parts = f'"{metric}" is a test score', "never select", f'"{dev}"'
        for verb in ("plan", "sweep"):
            refused([verb, path], line_of(path, "metric"), *parts)


def test_two_parts_that_do_not_fit(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    sampler = below(ANY, "{name: cma-es, configurations: 2}")
    path = space(GRID, sampler, "select: {metric: graded-dev}", "select: [dev, cost]")
    refused(["plan", path], line_of(path, "sampler"), "cma-es has one objective", "use nsga-ii")
    sbert = "methods:\n  sbert: {setting: sup, variants: {a: {epochs: 1}}}\n"
    path = space("    grid:", TRAINED, "methods:\n", sbert)
    refused(["plan", path], line_of(path, "{encoder"), "only one can train the encoder")
    arguments = ["run", "pooling", "--encoder", f"tiny-bert@{'0' * 32}", "--set", "suite=graded"]
    refused(arguments, "trial 0000000000, which trains it, has not finished")


def test_configurations_and_trials_of_a_space(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space(GRID, "    grid:\n" + "".join(map(hundred, (*RATES, "weight_decay"))))
    refused(["plan", path], line_of(path, "temperature"), MANY)
    grid = "".join(hundred(key, 0.1) for key in RATES)
    for changes in (
        ("setting: unsup\n", "setting: [unsup, sup]\n", "[42]", "[1, 2]"),
        ("[42]", "[1, 2, 3]"),
        ("{seeds: [0, 1]}", f"{{seeds: {[*range(150)]}, subsets: {[*range(150)]}}}"),
    ):
        path = space(GRID, f"    grid:\n{grid}", *changes)
        refused(["plan", path], line_of(path, "simcse:"), "at most 20000 can be planned")


def test_verbs_that_read_a_space(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    """The same sentence from both; a model that is only missing is named under the plan."""
    path = space("learning_rate", "learning_rat")
    for verb in ("plan", "sweep"):
        refused([verb, path], line_of(path, "learning_rat"), 'did you mean "learning_rate"?')
        refused([verb, path.with_name("none.yaml")], "none.yaml", "no such file")
        refused([verb, "simcse"], '"simcse" is a method, and the search space comes last', ".yaml")
    refused(["plan", "simcse", "quickstrat"], '"quickstrat"', 'did you mean "quickstart"?')
    for name in ("a/../tiny-bert", "tiny-bert/..", "a\\nb", ""):
        refused(["plan", space("[tiny-bert]", f'["{name}"]')], "cannot be the name of a model")
