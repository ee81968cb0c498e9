"""What is done once before trials run: mistakes are found early, and what trials share is built."""

from harness.device import device
from harness.encoders.loadable import check_loadable
from harness.evaluation.suites import suite
from harness.plugin.kit import Kit
from harness.training.checkpoints import checkpoint_minutes
from harness.trials.trial import Trial, key


def prepare(trial: Trial) -> None:
    """Build what the trials of a configuration share, such as tokenised corpora.

    Raises UserError for a model, a corpus, a suite or a declaration with which no trial can run.
    """
    checkpoint_minutes()  # a variable that is no number is refused before any trial
    declared = trial.declared
    declared.check()
    key(trial)  # it reads every model and every data file, so it finds the missing ones
    for name in declared.models:
        check_loadable(name)
    measured = suite(declared.config.suite)
    for task in (measured.dev, *measured.tests):
        measured.load(task)
    Kit(declared, device()).build_shared()
