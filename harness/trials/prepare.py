"""What is checked once before trials run, so that mistakes are found early."""

from harness.data.corpora import source
from harness.data.hub import model_shape
from harness.data.tokens import check_embedded
from harness.device import device
from harness.encoders.pretrained import check_loadable
from harness.evaluation.suites import suite
from harness.plugin.kit import Kit
from harness.training.saved_state import checkpoint_minutes
from harness.trials.trial import Trial, key


def check_runnable(trial: Trial) -> None:
    """Check that the trials of a configuration can run.

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
    kit, encoder = Kit(declared, device()), declared.config.encoder
    if encoder in declared.models:
        check_embedded(encoder, kit.tokenizer, int(model_shape(encoder)["vocab_size"]))
    for name in dict.fromkeys(declared.corpora.values()):
        if kit.tokenised(name, kit.template).damage:
            corpus = source(name)
            corpus.corpus(corpus.paths())  # what cannot be tokenised later is refused now
