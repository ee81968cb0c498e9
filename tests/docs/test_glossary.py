"""The glossary names options, columns, YAML keys and fields that exist."""

import re
from pathlib import Path

import pytest

from harness.cli.verbs import VERBS, command
from harness.plugin import registry
from harness.sweeps.spaces.space import MethodSpace, Repeats, Sampler, Select, Space, TrainedEncoder
from harness.trials.schema import SCHEMA

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
WORDS = """
trial configuration hyperparameter search round sweep step stage epoch stream corpus item view
encoder head prompt prefix generator discriminator artefact record key store suite task metric dev
test group method plugin protocol sampler budget pruner pruned study
""".split()  # noqa: SIM905
PHRASES = ("search space", "label fraction", "label subset", "dev before")


def places(kind: str) -> set[str]:
    """The names that the last column calls a `kind`, as in "fields `epochs`, `pairs`; ..."."""
    text = GLOSSARY.read_text(encoding="utf-8")
    parts = [
        part
        for cell in re.findall(r"\| ([^|]+) \|$", text, re.MULTILINE)
        for part in cell.split(";")
    ]
    named = [part for part in parts if re.search(rf"\b{kind}s?\b", part.partition("`")[0])]
    return {name for part in named for name in re.findall(r"`([^`]+)`", part)}


def test_every_fixed_word_has_one_sentence() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \*([^*]+)\* \| (.*?) \|", text, re.MULTILINE))
    assert not {*WORDS, *PHRASES} - set(rows)
    for word, sentence in rows.items():
        assert re.fullmatch(r"[A-Z].*\.", sentence), word


def test_what_is_named_exists() -> None:
    """Options, columns, and keys of a search space; the fields are next."""
    models = (Space, MethodSpace, Repeats, Select, TrainedEncoder, Sampler)
    options = {name for verb in VERBS for each in command(verb).params for name in each.opts}
    for kind, some, all_of_them in (
        ("option", {"--set", "--configurations"}, options),
        ("column", {"key", "dev_before"}, {*SCHEMA.names}),
        ("YAML", {"rounds", "seeds"}, {name for each in models for name in each.model_fields}),
    ):
        named = {name.partition(":")[0] for name in places(kind)}
        assert some <= named <= all_of_them, kind


@pytest.mark.slow
def test_the_fields_exist() -> None:
    configurations = [registry.load(method).config_type for method in registry.names()]
    fields = {name for each in configurations for name in each.model_fields}
    assert {"label_fraction", "epochs"} <= places("field") <= fields
