"""Cost of all tables of the papers, at the full size of their corpora."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from harness.data.corpora import published_sizes
from harness.data.hub import looked_up_once
from harness.errors import UserError
from harness.report.papers import load_paper, papers
from harness.report.quantities import PAPER_COLUMNS
from harness.sweeps.plan import Plan, plan_sweep
from harness.sweeps.spaces.search import Search
from harness.targets.options import SweepOptions
from harness.targets.published import compared_tables, table_searches
from harness.trials.store import Store


def paper_plans(
    options: SweepOptions, store: Store, device: str | None = None, gpus: int | None = None
) -> Iterator[tuple[str, Plan]]:
    """The plan of the tables of each paper, and at last of all of them, each with its name.

    A trial that two papers need counts for both, and once in all. What narrows the tables are the
    options; the corpora count with their published sizes, also where smaller ones stand in for
    them.
    """
    if options.space is not None or options.of_table:
        raise UserError("--papers prices all tables, so no space and no table is named beside it")
    trials, cores = store.read(PAPER_COLUMNS).table, options.cpus_per_trial
    planned = partial(plan_sweep, store=store, device=device, gpus=gpus, cpus_per_trial=cores)
    together = dict[str, Search]()
    with published_sizes(), looked_up_once():
        for paper in papers():
            own, numbers = dict[str, Search](), load_paper(paper).fillable
            for number in numbers:
                overrides = replace(options, paper=paper, table=number).as_read()
                compared = compared_tables(paper, number, overrides, trials)
                searches = table_searches(compared, overrides, lambda _: None)
                own |= {repr((each.method, each.config, each.rounds)): each for each in searches}
            name = f"{paper}, {len(numbers)} tables"
            yield name, planned(own.values())
            together |= own
        yield "in all", planned(together.values())
