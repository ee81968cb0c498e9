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


def test_the_options_exist() -> None:
    options = {name for verb in VERBS for each in command(verb).params for name in each.opts}
    named = places("option")
    assert {"--set", "--configurations"} <= named
    assert not named - options


def test_the_columns_exist() -> None:
    named = places("column")
    assert {"key", "dev_before"} <= named
    assert not named - set(SCHEMA.names)


def test_the_keys_of_a_search_space_exist() -> None:
    models = (Space, MethodSpace, Repeats, Select, TrainedEncoder, Sampler)
    keys = {name for model in models for name in model.model_fields}
    named = {key.partition(":")[0] for key in places("YAML")}
    assert {"rounds", "seeds"} <= named
    assert not named - keys


@pytest.mark.slow
def test_the_fields_exist() -> None:
    fields = {
        name for method in registry.names()
        for name in registry.load(method).config_type.model_fields
    }  # fmt: skip
    named = places("field")
    assert {"label_fraction", "epochs"} <= named
    assert not named - fields
