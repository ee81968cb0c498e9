"""A trial: what decides its result, the key that is made of that, and its record before it runs."""

import functools
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from harness import PROTOCOL, __version__
from harness.data.hub import hub_asked, model_folder
from harness.data.revisions import commits_of, parts_of, resolve_as, resolved_here, short_name
from harness.evaluation.suites import Suite, choosing, suite
from harness.files import digest_of
from harness.plugin import registry
from harness.plugin.config import MethodConfig, label_share
from harness.plugin.declared import Declared
from harness.plugin.engine_config import EngineConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import Configuration
from harness.trials.record import Record, trial_label

_PACKAGES = ("torch", "transformers", "ray", "optuna", "numpy", "scipy", "pyarrow")
_version = functools.cache(version)  # it reads a file, and a worker runs many trials
FACTS = (
    "key", "method", "setting", "encoder", "seed", "role", "configuration", "source_digest",
    "data_digest", "model_digest", "protocol",
)  # fmt: skip
"""The fields of a record that a file of trained weights has, too"""
Role = Literal["search", "final"]


@dataclass(frozen=True)
class Trial:
    """All that decides a result: the method, its configuration, the seed and the role.

    Its configuration is resolved when it is made. A copy that `dataclasses.replace` makes on
    another seed or in another role shares it. Raises UserError when there is no such method, or
    when the method refuses the configuration.
    """

    method: str
    """Name or path of the plugin"""
    configuration: Mapping[str, Any]
    """Hyperparameters; those that are not here have the paper's value or the default"""
    seed: int
    role: Role = "final"
    """`search`: scored on dev only; `final`: scored on dev and test"""
    search: str = ""
    """Identifier of the search that asked for the trial; it does not decide the result"""
    variant: str = ""
    """Name that a search space gives to the configuration; it does not decide the result"""
    searched: tuple[str, ...] = ()
    """Hyperparameters in which the trials of the search differ; the label has their values"""
    declared: Declared = field(init=False, compare=False, repr=False)
    """The declarations of the method under the configuration"""
    _key: str | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        resolved = self.configuration
        if not isinstance(resolved, Configuration) or resolved.method != self.method:
            resolved = Configuration(self.method, resolved)
        object.__setattr__(self, "configuration", resolved)
        object.__setattr__(self, "declared", resolved.declared)

    @property
    def plugin(self) -> Plugin:
        """The plugin, imported."""
        return registry.load(self.method)

    @property
    def config(self) -> MethodConfig:
        """The configuration as the method's own type."""
        return self.declared.config

    @property
    def without_effect(self) -> list[str]:
        """Hyperparameters that were given and change nothing beside the others, sorted."""
        assert isinstance(self.configuration, Configuration)
        return sorted(self.configuration.without_effect)

    @property
    def starts(self) -> list[str]:
        """The keys of the trials that have trained its models; none for pretrained ones."""
        return [trial for _, trial in map(parts_of, self.declared.models) if trial is not None]

    @property
    def workers(self) -> int:
        """The number of processes that train it."""
        config = self.config
        return config.workers if isinstance(config, EngineConfig) else 1

    @property
    def label(self) -> str:
        """The trial as people read it: method, setting, encoder, variant, searched values, seed."""
        config = self.config
        values = {name: getattr(config, name) for name in self.searched}
        method, setting, encoder = named(self.declared, self.variant).split(" ", 2)
        return trial_label(method, setting, encoder, self.seed, *label_share(config), values)


def portable(trial: Trial) -> dict[str, Any]:
    """A trial for another process: the plugin by its path, and the commits read of the Hub."""
    named = {part.name: getattr(trial, part.name) for part in fields(trial) if part.init}
    path, values = str(registry.locate(trial.method)), dict(trial.configuration)
    return {**named, "method": path, "configuration": values, "commits": resolved_here()}


def arrived(sent: Mapping[str, Any]) -> Trial:
    """The trial that another process has sent; this one then reads the same commits as that."""
    resolve_as(sent["commits"])
    return Trial(**{name: value for name, value in sent.items() if name != "commits"})


def named(declared: Declared, variant: str) -> str:
    """A configuration as people read it: method, setting, encoder, variant."""
    config = declared.config
    shown = f" ({variant})" if variant else ""
    return f"{declared.name} {config.setting} {short_name(config.encoder)}{shown}"


def key(trial: Trial, *, download: bool = True) -> str:
    """The key: the digest of everything that decides the result of a trial.

    Equal keys are the same trial. A trial keeps the key that it has got once. Raises UserError when
    a model or a data file is missing, and does not download it unless `download` is set.
    """
    if trial._key is None:
        declared = trial.declared
        identity = {
            "source": declared.source_digest,
            "configuration": declared.config.deciding(),
            "seed": trial.seed,
            "role": trial.role,
            "data": data_digest(declared, download=download),
            "model": declared.model_digest(download=download),
            "protocol": PROTOCOL,
        }
        if getattr(declared.config, "batching", "") == "grouped":
            # Trials from before left out the longest items, where batches do not fill a step.
            identity["batches"] = "of shuffled items"
        object.__setattr__(trial, "_key", digest_of(identity, 32))
    assert trial._key is not None
    return trial._key


def data_digest(declared: Declared, *, download: bool = True) -> str:
    """The digest of the training corpora, the suite's data, and the code of a user's suite."""
    suites = suites_of(declared.config)
    with hub_asked(download):
        files = [path for measured in suites for path in measured.files()]
    return declared.data_digest(files, download=download) + suites[0].code_digest


def suites_of(config: MethodConfig) -> list[Suite]:
    """The suite that measures a trial, and behind it the one that chooses, where it is another.

    Raises UserError for an unknown suite, and where no dev score is called `selected_by`.
    """
    measured = suite(config.suite)
    return list(dict.fromkeys([measured, choosing(measured, config.selected_by)]))


def failed(trial: Trial, reason: str, *, here: bool = True) -> Record:
    """The record of a trial that did not finish. `here`: whether this process has run it."""
    return replace(describe(trial, here=here), status="failed", reason=reason)


def pruned(trial: Trial, reason: str) -> Record:
    """The record of a trial that its search prunes before it begins."""
    return replace(describe(trial, here=False), status="pruned", reason=reason)


def describe(trial: Trial, *, here: bool = True) -> Record:
    """The part of a finished record that is known before the trial runs.

    here: whether this process runs it. Otherwise its machine is not known, and the GPU of this one
    is not asked, which would take memory of it.
    """
    threads = device = None
    if here:
        import torch  # a plan makes records of trials that run elsewhere

        threads, device = torch.get_num_threads(), f"cpu ({platform.machine()})"
        if torch.cuda.is_available():
            device = str(torch.cuda.get_device_name())
    declared, config = trial.declared, trial.config
    measured, *others = suites_of(config)
    packages = {name: _version(name) for name in _PACKAGES}
    return Record(
        key=key(trial),
        status="finished",
        role=trial.role,
        search=trial.search,
        method=declared.name,
        setting=config.setting,
        encoder=config.encoder,
        seed=trial.seed,
        suite=measured.name,
        suite_card=measured.dumped_card(),
        selected_by=[measured, *others][-1].card.dev,
        configuration=config.deciding(),
        engine=config.computed_by(),
        plugin=_path_of(trial),
        source_digest=declared.source_digest,
        data_digest=data_digest(declared),
        model_digest=declared.model_digest(),
        protocol=PROTOCOL,
        threads=threads,
        host=platform.node() if here else None,
        device=device,
        versions={"harness": __version__, "python": platform.python_version(), **packages},
        commit=commit(),
        revisions=revisions(trial, measured),
        searched=" ".join(trial.searched),
    )


def revisions(trial: Trial, measured: Suite) -> dict[str, str]:
    """Models and data sets of the Hub -> the commits that a trial or an evaluation of it reads.

    measured: the suite that gives the scores. Raises UserError when something is not at hand.
    """
    declared = trial.declared
    suites = [*suites_of(declared.config), measured]
    paths = [*map(model_folder, declared.models), *declared.corpus_files(), *declared.files]
    commits = commits_of([*paths, *(path for one in suites for path in one.files())])
    for one in suites:
        commits |= one.commits()
    return dict(sorted(commits.items()))


def _path_of(trial: Trial) -> str | None:
    """The path by which the plugin of a trial is named; None where its name is enough."""
    source = registry.source(trial.plugin.name)
    if source and registry.source_digest(source) == trial.plugin.source_digest:
        return None
    return trial.method if Path(trial.method).is_absolute() else str(registry.locate(trial.method))


def facts_of(trial: Trial) -> dict[str, Any]:
    """The facts about its trial in a file of trained weights.

    From these facts and the models that they name, the method can be built again. Nothing in them
    differs between two runs of a trial, so equal weights are equal files.
    """
    known = describe(trial, here=False)
    return {name: getattr(known, name) for name in FACTS}


@functools.cache
def commit() -> str:
    """The commit of the checkout, with "+" when its files have changed; "" outside a checkout.

    Files that the commit does not have do not count: a plugin among them has a digest of its own.
    """
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        changed = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except OSError:
        return ""  # there is no program git
