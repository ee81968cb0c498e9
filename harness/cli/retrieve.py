"""`harness retrieve`: shows the sentences that are nearest to a query."""

from typing import Annotated

import typer

from harness.cli import options
from harness.cli.eval import MethodOption, ModelArgument, PoolingOption


def retrieve(
    name: ModelArgument,
    queries: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="Any sentences.", show_default=False)
    ],
    count: Annotated[
        int, typer.Option("--count", min=1, help="Number of sentences to show for each query.")
    ] = 3,
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Show the sentences of STS-B test that are nearest to each query by cosine.

    DiffCSE's Table 9 and D2CSE's Table 3 do the same.

    Example: harness retrieve 4f2a "you can do it, too." "this is not a problem."
    """
    from harness.cli.progress import working
    from harness.cli.screen import Screen
    from harness.shared_cache import check_caches
    from harness.trials.lookup import named

    check_caches()
    console, found = Screen(), options.opened(store)
    resolved = named(name, found, pooling=pooling, method=method)
    with working(f"asking {name} for the sentences of STS-B test") as work:
        chosen = resolved()
        work("loading torch and the model")
        from harness.trials.nearest import SentenceModel

        sentences = SentenceModel(chosen, found, work)
    console.print(chosen.label, soft_wrap=True)
    for query in queries:
        console.print(f"\n{query}", soft_wrap=True)
        for rank, (text, cosine) in enumerate(sentences.nearest(query, count), start=1):
            console.print(f"  {rank}  {cosine:.3f}  {text}", soft_wrap=True)
