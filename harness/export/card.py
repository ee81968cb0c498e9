"""The model card of an exported model: README.md, as the Hub shows it."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harness import __version__
from harness.data.revisions import repository_of
from harness.errors import visible
from harness.export.exportable import Exportable, shown_encoder
from harness.export.folder import library_model
from harness.plugin.config import label_share
from harness.report.cells import decimals_of, percent_text, score_text
from harness.report.formats import escaped
from harness.report.groups import Group
from harness.trials.publishing import without_folder, without_folders
from harness.trials.record import Record

_FOLDERS = re.compile(r"(?<![\w.~])(~|\.{1,2})?(/[^\s/='\"]+)*/(?=[^\s/='\"])")
"""The folders in front of the last part of a path; others have it elsewhere"""
SCRIPT = """\
```python
{imports}

model = {load}
vectors = model.encode(["A sentence.", "Another one."])
```
"""


def model_card(
    model: Exportable, group: Group | None, *, plain: bool, command: str | None = None
) -> str:
    """The text of the card.

    group: the trials that differ from this one in nothing but seed and label subset, this one
    among them. plain: whether sentence-transformers alone loads the folder. command: what runs the
    trial again; None: it is not known.
    """
    facts = model.facts
    encoder = shown_encoder(facts["encoder"])
    parts = [
        _front_matter(facts),
        f"# {escaped(facts['method'])} on {escaped(encoder)}\n",
        f"A sentence encoder: {_what(facts, trained=_is_trained(model))}. Measured with harness "
        f"{__version__}, trial `{facts['key'][:10]}`.\n",
        "## How to use it\n",
        _usage(loaded_by(model) if plain else None),
        "## Scores\n",
        *_scores(model, group),
        "## Training\n",
        *_training(model),
        *_again(model.record, command),
        "## Licence\n",
        f"These weights come from {_code(encoder)} and from the training data above. Their "
        f"licences\nhold for this model, too; look them up before you pass it on. "
        f"harness knows none of them, and\nits own licence (Apache-2.0) is for its code.\n",
    ]
    return "\n".join(parts)


def _code(name: str) -> str:
    """A name as code on one line, from which no sign of it leads out."""
    line = visible(" ".join(name.split())).replace("`", "'")
    return f"`{line}`"


def _front_matter(facts: Mapping[str, Any]) -> str:
    values = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "harness", facts["method"]],
    }
    if facts["method"] != "glove":
        values["base_model"] = shown_encoder(repository_of(facts["encoder"]))
    return f"---\n{yaml.safe_dump(values, sort_keys=False)}---\n"


def _is_trained(model: Exportable) -> bool:
    return model.record is None or bool(model.record.steps)


def _what(facts: Mapping[str, Any], *, trained: bool) -> str:
    if not trained:
        return f"method {escaped(facts['method'])}, in which the pretrained encoder stays as it is"
    setting = {
        "unsup": "without labels",
        "sup": "on labelled items",
        "semisup": "on sentences and labelled items",
    }[facts["setting"]]
    return f"method {escaped(facts['method'])}, trained {setting}, seed {facts['seed']}"


def loaded_by(model: Exportable) -> str:
    """The sentence about the versions of sentence-transformers that load a folder of its modules.

    A model of the library is copied, with the names that the version knew that wrote it.
    """
    copied = library_model(model.method) is not None
    encoder = _code(shown_encoder(model.kit.config.encoder))
    which = f"that load {encoder}" if copied else "from 3 to 6"
    return f"The versions of sentence-transformers {which} load it"


def _usage(loaded: str | None) -> str:
    if loaded is not None:
        script = SCRIPT.format(
            imports="from sentence_transformers import SentenceTransformer",
            load='SentenceTransformer("THIS FOLDER")',
        )
        return f"{script}\n{loaded}.\n"
    return (
        "The method needs code that sentence-transformers does not have. It comes from the "
        "installed\npackage `harness-embeddings`; there is no code in this folder.\n\n"
        + SCRIPT.format(imports="import harness", load='harness.encoder("THIS FOLDER")')
        + "\nSentence-transformers itself imports the installed package only if it is told to "
        'trust it:\n`SentenceTransformer("THIS FOLDER", trust_remote_code=True)`.\n'
    )


def _scores(model: Exportable, group: Group | None) -> Iterator[str]:
    """A table of the scores: of this model with its interval, and of all seeds."""
    trials = group.trials if group else ()
    trial = next((each for each in trials if each.key == model.facts["key"]), None)
    if group is None or trial is None:
        yield "The folder was made from a file of weights alone, which has no scores.\n"
        return
    if model.record is not None:
        by = f"{model.record.selected_by} on dev has chosen the checkpoint, and test scores chose "
        chosen = f"{by}nothing" if _is_trained(model) else "nothing was chosen"
        yield (
            f"Measured on {model.record.device or 'an unknown device'}; {chosen}.\nThe interval is "
            f"a 95 % bootstrap over the items of a task.\n"
        )
    n = f"mean±std over seeds (n = {group.n})" if len(group.trials) > 1 else "seeds"
    yield f"| suite | metric | this model | 95 % interval | {n} |\n| :-- | :-- | --: | :-- | --: |"
    for part in (part for part in group.parts if trial in part.trials):
        suite, scores = str(part.suite), part.scores(trial)
        cells = {**part.dev, **part.test}
        for name, value in {**scores.dev, **scores.test}.items():
            means = [part.test[name].mean] if name in part.test else []
            digits = decimals_of(part.card, means) if name in scores.test else 2
            spread = scores.uncertainty.get(name)
            interval = f"{spread.low:.{digits}f} to {spread.high:.{digits}f}" if spread else ""
            score = cells.get(name)
            seeds = score_text(score, digits) if len(group.trials) > 1 else "1 alone"
            if score and score.n != len(group.trials):
                seeds += f" (n = {part.n})"
            named = f"{escaped(suite)} | {escaped(name)}"
            yield f"| {named} | {value:.{digits}f} | {interval} | {seeds} |"
    yield ""


def _training(model: Exportable) -> Iterator[str]:
    declared = model.kit.declared
    corpora = ", ".join(
        f"{_code(without_folder(name))} ({stream})" for stream, name in declared.corpora.items()
    )
    (share, subset), drawn = label_share(declared.config), ""
    if declared.draws_labels:
        drawn = f"; {percent_text(share)} of the labels, subset {subset}"
    encoder = _code(shown_encoder(model.facts["encoder"]))
    yield f"Training data: {corpora or 'none'}{drawn}. Encoder: {encoder}.\n"
    record = model.record
    if record is not None and record.steps:
        yield (
            f"{record.steps} steps in {record.precision}, {record.training_seconds or 0:.0f} s; "
            f"{record.parameters_trainable or 0:,} of {record.parameters_total or 0:,} parameters "
            f"were trained.\n"
        )
    values = without_folders(dict(model.facts["configuration"]))
    yield f"Configuration:\n\n```json\n{json.dumps(values, indent=2, sort_keys=True)}\n```\n"
    digests = ("source_digest", "data_digest", "model_digest", "protocol")
    shown = ", ".join(f"{name} `{model.facts[name]}`" for name in digests)
    yield f"Made of: {shown}.\n"
    if record is not None and record.revisions:
        commits = ", ".join(f"`{name}` {each}" for name, each in record.revisions.items())
        yield f"From the Hub, at these commits: {commits}.\n"


def _again(record: Record | None, command: str | None) -> Iterator[str]:
    """The command, and what it ran with."""
    if record is None or command is None:
        return
    versions = ", ".join(f"{name} {number}" for name, number in sorted(record.versions.items()))
    shown = visible(shlex.join(map(_word, shlex.split(command)))).replace("\n", "\n    ")
    yield f"This command trains and measures it again:\n\n    {shown}\n"
    yield f"It ran with {versions}{f', commit {record.commit}' if record.commit else ''}.\n"


def _word(word: str) -> str:
    """A word of a command without the folders of this machine."""
    name, equals, value = word.partition("=") if re.match(r"\w+=", word) else ("", "", word)
    return name + equals + _FOLDERS.sub("", without_folder(value))
