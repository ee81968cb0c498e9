"""What is done once before trials run: mistakes are found early, and what trials share is built."""

from safetensors import SafetensorError, safe_open

from harness.data.hub import model_folder, model_shape
from harness.device import device
from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.plugin.declared import Declared
from harness.plugin.kit import Kit
from harness.trials.trial import Trial, key


def prepare(trial: Trial) -> None:
    """Build what the trials of a configuration share, such as tokenised corpora.

    Raises UserError for a model, a corpus, a suite or a declaration with which no trial can run.
    """
    declared = trial.declared
    declared.check_streams()
    key(trial)  # it reads every model and every data file, so it finds the missing ones
    _check_models(declared)
    measured = suite(declared.config.suite)
    for task in (measured.dev, *measured.tests):
        measured.load(task)
    Kit(declared, device()).build_shared()


def _check_models(declared: Declared) -> None:
    """Look at the sizes and at the table of contents of each model, without loading it."""
    for name in declared.models:
        model_shape(name)
        for path in model_folder(name).glob("*.safetensors"):
            try:
                with safe_open(path, framework="np"):
                    pass
            except (SafetensorError, OSError) as error:
                raise UserError(f'model "{name}": {path} cannot be read ({error})') from None
