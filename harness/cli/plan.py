"""Verbs that run no trial of a sweep: `harness plan` and `harness prepare`."""

import typer

from harness.cli import options
from harness.cli.output import Screen
from harness.cli.progress import working
from harness.cli.targets import SweepOptions
from harness.files import cache_folder
from harness.sweeps.machines import Limits, Resources


def plan(
    targets: options.TargetsArgument = None,
    set_: options.SetOption = None,
    encoder: options.EncoderOption = None,
    configurations: options.ConfigurationsOption = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    published: options.PublishedOption = False,
    paper: options.PaperOption = None,
    number: options.TableOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
) -> None:
    """Show the trials of a sweep, what the store already has, and the estimated cost.

    It runs nothing. What cannot fit on the GPUs of this machine is refused.

    Example: harness plan methods/d2cse search_spaces/unsup.yaml
    """
    chosen = SweepOptions(
        targets or [], set_, encoder, configurations, seeds, subsets,
        published, paper, number, store,
    )  # fmt: skip
    searches, found = chosen.searches(), options.opened(store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.paper_suites import announce
    from harness.cli.printed_plan import print_plan

    print_plan(searches, found, cpus_per_trial)
    announce(chosen)


def prepare(
    targets: options.TargetsArgument = None,
    set_: options.SetOption = None,
    encoder: options.EncoderOption = None,
    configurations: options.ConfigurationsOption = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    published: options.PublishedOption = False,
    paper: options.PaperOption = None,
    number: options.TableOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
    gpus_per_trial: options.GpusOption = None,
    address: options.AddressOption = None,
) -> None:
    """Make what the trials of a sweep share, such as tokenised corpora, and run no trial.

    A sweep does this by itself. On a cluster whose machines share a folder (HARNESS_CACHE), this
    verb makes it ready beforehand.

    Example: harness prepare methods/diffaug search_spaces/semisup.yaml
    """
    chosen = SweepOptions(
        targets or [], set_, encoder, configurations, seeds, subsets,
        published, paper, number, store,
    )  # fmt: skip
    gpus = options.gpus_of(gpus_per_trial)
    searches = chosen.searches()
    options.use_cluster(address)
    found = options.opened(store)
    console = Screen()
    with working(f"preparing what the trials of {len(searches)} searches share") as work:
        work("loading torch")
        from harness.sweeps.run import run_sweep
        from harness.sweeps.screen.live_view import publishing
        from harness.sweeps.screen.terminal import Preparation

        resources = Resources(cpus_per_trial, gpus)
        with publishing(found) as publish:
            watcher = Preparation(console, publish, work, work.aside)
            run_sweep(searches, found, resources, Limits(), watcher, only_parts=True)
    if watcher.state.failed:
        raise typer.Exit(1)
    console.print(f"What the trials share is in the cache {cache_folder()}.", soft_wrap=True)
