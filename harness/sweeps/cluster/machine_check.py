"""Whether all machines of a cluster can run the trials of a sweep as this one would."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import ray

from harness import PROTOCOL, __version__
from harness.data.corpora import source
from harness.data.hub import model_digest
from harness.errors import UserError, reason, shortened
from harness.files import PACKAGE, digest_files
from harness.plugin import registry
from harness.sweeps.workers.files import on_every_machine, receive
from harness.sweeps.workers.worker import trial_settings  # with all that a trial needs
from harness.trials.trial import Trial, arrived, suites_of

ANSWER_SECONDS = 900.0
"""A machine starts a worker for its answer, and may download models and data before it"""
DECIDING = ("torch", "transformers", "tokenizers", "numpy", "scipy")
"""Packages on whose versions the last digits of a result depend"""
Digests = dict[str, str]
"""Parts that decide results, such as `the model "bert-base-uncased"` -> its digest or version"""


def digests_of_code() -> Digests:
    """The digest of harness on this machine, and the versions of the packages under it.

    Raises PackageNotFoundError without one of them.
    """
    own = f"{__version__}, protocol {PROTOCOL}, {registry.source_digest(PACKAGE)}"
    # A machine with GPUs has another build of torch (2.13.0+cu130) than one without.
    packages = {f"the package {name}": version(name).partition("+")[0] for name in DECIDING}
    return {"the source of harness": own} | packages


def digests_of(trial: Trial) -> Digests:
    """The digests of what decides the result of a trial on this machine.

    Raises UserError when a model or a file is missing.
    """
    declared = trial.declared
    corpora = {name: source(name).paths() for name in declared.corpora.values()}
    return {
        f'the source of "{declared.name}"': declared.source_digest,
        f'the files of "{declared.name}"': digest_files(declared.files),
        **{f'the suite "{each.name}"': each.digest() for each in suites_of(trial.config)},
        **{f'the model "{name}"': model_digest(name) for name in declared.models},
        **{f'the corpus "{name}"': digest_files(paths) for name, paths in corpora.items()},
    }


def check_machines(samples: Sequence[Trial], node: str) -> None:
    """Let every machine of the cluster receive the files of trials, and compare its digests.

    `samples`: a trial of each search. `node`: Ray's name of this machine. Raises UserError, with
    the name of the machine, when its digests differ from those of this machine, and when it cannot
    answer.
    """
    here = digests_of_code()
    for sample in samples:
        here |= digests_of(sample)
    sent = [trial_settings(sample, node) for sample in samples]
    for name, digests in on_every_machine(digests_or_reason, sent):
        try:
            check_same(name, here, ray.get(digests, timeout=ANSWER_SECONDS))
        except ray.exceptions.RayError as error:
            why = shortened(str(error).strip().splitlines()[-1], 300)
            raise UserError(f"the machine {name} of the cluster cannot run trials: {why}") from None


def digests_or_reason(samples: Sequence[Mapping[str, Any]]) -> Digests | str:
    """The digests on this machine, or why there are none."""
    try:
        digests = digests_of_code()
        for sample in samples:
            receive(**sample["files"])
            digests |= digests_of(arrived(sample["trial"]))
    except PackageNotFoundError as error:
        return f"it does not have the package {error.name}"
    except UserError as error:
        return reason(error)
    return digests


def check_same(name: str, here: Digests, there: Digests | str) -> None:
    """Raises UserError when the machine `name` has no digests, or others than this one."""
    if isinstance(there, str):
        raise UserError(f"the machine {name} of the cluster cannot run trials: {there}")
    for part, digest in here.items():
        if there[part] != digest:
            raise UserError(
                f"the machine {name} of the cluster has another version of {part}: put the same "
                f"there as here, or take it out of the cluster"
            )
