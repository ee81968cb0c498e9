"""The commands that fill the gaps of a table."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.report.published.matching import Wanted, yaml_text
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
        space = f"search_spaces/{target.setting}.yaml"
        words = ["harness", "sweep", f"methods/{target.method}", space]
        words += ["--encoder", target.encoder]
        for name, value in target.configuration:
            words += ["--set", f"{name}={yaml_text(value)}"]
            if name == "label_fraction":
                words += ["--subsets", SUBSETS]
        return shlex.join([*words, *store_option(self.store)])

    def space(self, space: str) -> str:
        """The command that runs what a search space lacks. `space`: its name or file."""
        return shlex.join(["harness", "sweep", space, *store_option(self.store)])

    def table(self, paper: str, number: str, encoder: str | None = None) -> str:
        """The command that fills what a published table lacks."""
        words = ["harness", "sweep", "--paper", paper, "--table", number]
        words += ["--encoder", encoder] if encoder else []
        return shlex.join([*words, *store_option(self.store)])

    def evaluation(self, model: Sequence[str], suite: str) -> str:
        """The command that measures a model with a suite. `model`: the words that name it."""
        words = ["harness", "eval", *model, "--suite", suite]
        return shlex.join([*words, *store_option(self.store)])

    def obstacle(self, target: Wanted) -> str:
        """The reason why the sweep cannot be run yet; "" when it can be run."""
        if target.method not in self.methods:
            return f"there is no method {target.method}"
        return f"it needs {target.needs}" if target.needs else ""
