"""The commands that fill the gaps of a table: missing sweeps and missing evaluations."""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from harness.files import shipped
from harness.report.groups import Group
from harness.report.matching import Wanted, yaml_text
from harness.report.measured_trials import MeasuredTrial
from harness.trials.store_folders import store_option

SUBSETS = "0,1,2,3,4"
"""The label subsets of a sweep with a share of the labels: five (diffaug.md, section 7)"""


@dataclass(frozen=True)
class Commands:
    """Makes commands for one store. `methods`: the names of the methods that can be run here."""

    methods: Collection[str]
    store: Path | str

    def sweep(self, target: Wanted) -> str:
        """The sweep whose final trials can stand beside a reported number."""
        space = f"search_spaces/{_space(target)}"
        words = ["harness", "sweep", f"methods/{target.method}", space]
        words += ["--encoder", target.encoder]
        for name, value in target.configuration:
            words += ["--set", f"{name}={yaml_text(value)}"]
            if name == "label_fraction":
                words += ["--subsets", SUBSETS]
        return shlex.join([*words, *store_option(self.store)])

    def evaluation(self, trial: MeasuredTrial, group: Group, suite: str) -> str:
        """The command that measures a trial with one more suite.

        A trial is named by its key, and an encoder that only `harness eval` has measured by its
        own name.
        """
        model = [trial.key[:10]]
        if trial.own is None and group.method == "pooling":
            model = [group.encoder, "--pooling", str(group.configuration["pooling"])]
        return shlex.join(["harness", "eval", *model, "--suite", suite, *store_option(self.store)])

    def obstacle(self, target: Wanted) -> str:
        """The reason why the sweep cannot be run yet; "" when it can be run."""
        if target.method not in self.methods:
            return f"no method {target.method}"
        if not (shipped("search_spaces") / _space(target)).exists():
            return f"no search_spaces/{_space(target)}"
        return ""


def _space(target: Wanted) -> str:
    return f"{target.setting}.yaml"
