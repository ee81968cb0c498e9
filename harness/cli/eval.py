"""`harness eval` measures a model with suites; `harness retrieve` asks it for sentences."""

import re
import string
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from harness.choices import EncoderPooling
from harness.cli import completion, options
from harness.cli.output import Screen
from harness.cli.progress import Work, working
from harness.data.hub import model_folder
from harness.data.shapes import split_name
from harness.errors import NotHere, UserError
from harness.inputs import kind_of, names_in
from harness.shared_cache import check_caches
from harness.targets.stores import opened

if TYPE_CHECKING:
    from harness.evaluation.suites import Suite
    from harness.trials.lookup import MeasuredModel
    from harness.trials.record import Record
    from harness.trials.store import Store

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="The key of a trial, the Hub name of a model, or a folder.",
        autocompletion=completion.models,
        show_default=False,
    ),
]
PoolingOption = Annotated[
    EncoderPooling | None,
    typer.Option(
        "--pooling",
        help="The pooling of a plain encoder. The last four are for the checkpoints of supervised "
        "SimCSE, PromptBERT and PromCSE. Default: that of a sentence-transformers folder, "
        "else mean.",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="PATH", help="The plugin of a trial, where it is not found by its name."
    ),
]
SuitesOption = Annotated[
    str,
    typer.Option(
        "--suite",
        help="sts, transfer-senteval, retrieval, geometry, graded, a Python file, "
        "a table of scored pairs (pairs.csv), a folder with queries, documents and relevant "
        "pairs, or a task or a benchmark of mteb (mteb:STS22, "
        "mteb:MTEB-eng-v2); also several: a,b.",
    ),
]
_COMMA = re.compile(r",(?![^()]*\))")
"""The separator of suites; a comma in parentheses is a part of a name, as in MTEB(eng, v2)"""
KeepOption = Annotated[
    bool, typer.Option("--keep-embeddings", help="Keep all vectors in the cache for later suites.")
]


def check_model(name: str) -> None:
    """Raise UserError for a name that no model has; it imports nothing of a store.

    A name that may be the key of a trial is left to `harness.trials.lookup.named`.
    """
    if set(name) <= set(string.hexdigits.lower()):
        return
    try:
        model_folder(name, download=False)
    except NotHere:
        model_folder(name)


def eval_(
    name: ModelArgument,
    suite: SuitesOption = "sts",
    pooling: PoolingOption = None,
    keep_embeddings: KeepOption = False,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Measure a model with one or more suites, and store the scores.

    A suite whose scores are in the store is not measured again, unless the cosines of its test
    pairs or the figures of its queries, which `harness compare` needs, are not kept there.

    Example: harness eval sentence-transformers/all-MiniLM-L6-v2 --suite sts,transfer-senteval
    """
    check_caches()
    check_model(name)
    from harness.evaluation.suites import check_name
    from harness.evaluation.suites import suite as suite_called

    names = _names(suite)
    for called in names:
        check_name(called)
    from harness.trials.lookup import evaluation_key, named  # with what a store needs

    results = opened(store)
    results.check_writable()
    resolved = named(name, results, pooling=pooling, method=method)
    with working(f"evaluating {name} on {suite}") as work:
        suites = [part for whole in map(suite_called, names) for part in whole.parts or (whole,)]
        _check_names(suites)
        model, console, missing = resolved(), Screen(), []
        with work.aside():
            console.say(model.label)
            for part in suites:
                record = results.get(evaluation_key(model, part))
                if record is not None and record.finished and _pairs_are_kept(model, part, results):
                    _print(console, part, record, "in the store")
                else:
                    missing.append(part)
        if len(missing) == len(suites):
            _check_data(missing)
        if missing and not _measure(console, work, model, missing, results, keep=keep_embeddings):
            raise typer.Exit(1)


def _pairs_are_kept(model: "MeasuredModel", suite: "Suite", store: "Store") -> bool:
    """Whether it is there what the suite keeps of its test pairs or queries."""
    from harness.evaluation.kept import items_of
    from harness.trials.trial import key

    kept = store.kept_pairs(key(model.trial), suite.name)
    return items_of(suite) is None or kept.is_file()


def _names(text: str) -> list[str]:
    """The names of suites in a text; a comma is a part of a name where a file is called so."""

    def is_there(name: str) -> bool:
        return kind_of(Path(split_name(name)[0])) in ("a file", "a folder")

    return names_in(_COMMA.split(text), is_there)


def _measure(
    console: Screen,
    work: Work,
    model: "MeasuredModel",
    suites: "list[Suite]",
    store: "Store",
    *,
    keep: bool,
) -> bool:
    """Measure, print and store; whether all scores of all suites are there.

    Raises UserError, after all suites were measured, when a record cannot be stored.
    """
    work("loading torch and the model")
    from harness.trials.evaluate import Measurement, evaluations

    complete, unwritten = True, None
    measurement = Measurement(model, store, keep=keep, steps=work)
    for suite, record in zip(suites, evaluations(measurement, suites), strict=True):
        with work.aside():
            _print(console, suite, record, _cost(record))
        complete &= record.finished
        try:
            store.write(record)
        except UserError as error:  # the other suites still have scores to print
            unwritten = unwritten or error
    if keep:
        with work.aside():
            console.say(f"embeddings: {measurement.folder}")
    if unwritten is not None:
        raise unwritten
    return complete


def _check_names(suites: "list[Suite]") -> None:
    """Raise UserError when two suites have one name, unless they are single tasks of one suite."""
    names = [(each.name, task) for each in suites for task in (each.data if each.embeds else "*")]
    for name, task in names:
        if names.count((name, task)) > 1:
            raise UserError(f'two of the suites have the name "{name}"; rename one of them')


def _check_data(suites: "list[Suite]") -> None:
    """Raise UserError when there are no data for any of the suites.

    A user's suite is read at once, because its functions may give anything.
    """
    missing = []
    for suite in suites:
        try:
            suite.digest()
            if suite.code_digest and all(_unreadable(suite, task) for task in suite.data):
                suite.load(next(iter(suite.data)))
        except UserError as error:
            missing.append(error)
    if len(missing) == len(suites):
        raise missing[0]


def _unreadable(suite: "Suite", task: str) -> bool:
    try:
        suite.load(task)
    except UserError:
        return True
    return False


def _cost(record: "Record") -> str:
    """The time for embedding and scoring, as text."""
    embedding, rate = record.evaluation_seconds or 0.0, record.sentences_per_second
    embedded = "embeddings were kept"
    if rate:
        embedded = f"embedding {embedding:.1f} s ({rate:.0f} sentences/s)"
    return f"{embedded}, scoring {(record.wall_seconds or 0.0) - embedding:.1f} s"


def _print(console: Screen, suite: "Suite", record: "Record", how: str) -> None:
    """Print one line per metric, with the interval of its bootstrap, and what is missing."""
    table = Table("metric", box=box.SIMPLE_HEAD)
    for title in ("score", "standard error", "95 % interval"):
        table.add_column(title, justify="right")
    scores = {**record.dev, **record.test}
    # Of a suite that does not say it: two decimals would not tell values of about 1 apart.
    small = max((abs(value) for value in scores.values()), default=0) <= 1
    decimals = suite.card.decimals if suite.card.decimals is not None else 4 if small else 2
    for metric, value in scores.items():
        spread, shown = record.uncertainty.get(metric), f"{value:.{decimals}f}"
        error = f"{spread.standard_error:.2f}" if spread else ""
        interval = f"{spread.low:.2f} to {spread.high:.2f}" if spread else ""
        table.add_row(metric, shown, error, interval)
    console.say(f"\n{suite.name} ({how})")
    if suite.code_digest and suite.card.protocol:  # that of a shipped suite is on its page
        console.say(suite.card.protocol)
    if scores:
        console.print(table)
    if record.reason:
        console.say(f"missing in {suite.name}: {record.reason}")


def retrieve(
    name: ModelArgument,
    queries: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="Any sentences.", show_default=False)
    ],
    texts: Annotated[
        str | None,
        typer.Option(
            "--texts",
            metavar="FILE",
            help="The texts that are searched: a file in any format of corpora, or another corpus. "
            "Default: the sentences of STS-B test.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, help="Number of sentences to show for each query.")
    ] = 3,
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Show the sentences that are nearest to each query by cosine, of STS-B test or of a file.

    DiffCSE's Table 9 and D2CSE's Table 3 do the same.

    Example: harness retrieve 4f2a "you can do it, too." "this is not a problem."
    """
    check_caches()
    check_model(name)
    if texts is not None:
        from harness.data.corpora import source  # with numpy, which a wrong name does not need

        source(texts)  # it raises before a store is read and a model loaded
    from harness.trials.lookup import named

    console, results = Screen(), opened(store)
    resolved = named(name, results, pooling=pooling, method=method)
    with working(f"asking {name} for the sentences of {texts or 'STS-B test'}") as work:
        chosen = resolved()
        work("loading torch and the model")
        from harness.trials.evaluate import SentenceModel

        sentences = SentenceModel(chosen, results, work, corpus=texts)
    console.say(chosen.label)
    for query in queries:
        console.say(f"\n{query}")
        for rank, (text, cosine) in enumerate(sentences.nearest(query, count), start=1):
            console.say(f"  {rank}  {cosine:.3f}  {text}")
