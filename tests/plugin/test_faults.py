"""Findings of `harness check`: broken plugins, each with its fault by name and by line."""

from pathlib import Path

import pytest

from harness.plugin_check.check import problems

RIGHT = '''"""A plugin that keeps the contract."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.info_nce import info_nce
from harness.plugin import Kit, Stage, TextBatch

STEPS = 0


class Config(plugin.TrainingConfig):
    """It leaves its setting to TrainingConfig."""

    precision: plugin.Precision = "fp32"
    rounds: int = Field(4, ge=1)


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"views": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trains = {"*.model.*": "learning_rate", "head.*": "learning_rate"}
        return [config.stage("views", trains=trains)]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = nn.Linear(self.encoder.hidden_size, self.encoder.hidden_size)
        self.still = nn.Parameter(torch.zeros(1))
        self.calls = 0
        self.register_buffer("queue", torch.zeros(0, self.encoder.hidden_size))

    def prepared(self, batch, stage):
        return {"views": batch["views"].repeated(2)}

    def losses(self, batch, stage):
        texts = batch["views"]
        vectors = self.head(self.vectors(texts))
        first, second = texts.split(vectors)
        return {"views": info_nce(first, second, temperature=0.05)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")

    def vectors(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")

    def test_text(self, text: str) -> str:
        return text
'''
LOSS = '        return {"views": info_nce(first, second, temperature=0.05)}\n'
SAVED = """
    def get_extra_state(self):
        return torch.tensor(self.calls)

    def set_extra_state(self, state):
        self.calls = int(state)
"""
EMBED = """def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")"""
FAULTS = {
    "a pattern that matches nothing": (
        '"head.*"', '"heads.*"', '"heads.*"',
        'stage "views": the pattern "heads.*" in `trains` matches no parameter of the method',
    ),
    "a rate that is no field": (
        '"head.*": "learning_rate"', '"head.*": "head_rate"', '"head_rate"',
        'stage "views": the configuration has no field "head_rate" for the learning rate',
    ),
    "a stream without a corpus": (
        '{"views": config.sentences}', '{"sentences": config.sentences}', '"views", trains',
        'stage "views": it reads the stream "views", which corpora() [\'sentences\'] lacks',
    ),
    "a trained parameter without gradient": (
        "vectors = self.head(self.vectors(texts))", "vectors = self.vectors(texts)", "def losses",
        'stage "views": the parameter head.weight and 1 more of 39 would train, '
        "but gets no gradient",
    ),
    "a frozen parameter that moves": (
        LOSS, f"        self.still.data += 1\n{LOSS}", "def losses",
        'stage "views": the frozen parameter still moved; name it in `trains`, or in `moves` where '
        "the method itself changes it, as a momentum encoder does",
    ),
    "an encoder under another name": (
        "self.encoder", "self.bert", "self.bert = kit.encoder()",
        "evaluation reads self.encoder, but this method keeps its encoder as self.bert; "
        "rename it, or write `longest`",
    ),
    "a loss that depends on padding": (
        'Tensor:\n        return pooled(self.encoder, batch, "mean")\n\n    def test',
        "Tensor:\n        return self.encoder(batch, padding=True).mean(1)\n\n    def test",
        "def losses",
        'stage "views": the loss "views" depends on the padding of the batch: the same rows give '
        "another one when they have more of it; use the attention mask",
    ),
    "a counter that is not saved": (
        LOSS, f"        self.calls += 1\n{LOSS}", "self.calls += 1",
        'stage "views": training changes self.calls, which no checkpoint holds: some state is not '
        "in a parameter, a buffer or get_extra_state()",
    ),
    "a variable that is not saved": (
        LOSS, f"        global STEPS\n        STEPS += 1\n{LOSS}", "STEPS += 1",
        'stage "views": training changes the variable STEPS, which no checkpoint holds: some '
        "state is not in a parameter, a buffer or get_extra_state()",
    ),
    "a state that is no tensor": (
        LOSS, f"        self.calls += 1\n{LOSS}{SAVED}".replace("torch.tensor", "int"),
        "def get_extra_state",
        'stage "views": get_extra_state() must return a tensor, and not int',
    ),
    "a random batch": (
        'return {"views": batch["views"]', 'torch.rand(1)\n        return {"views": batch["views"]',
        "def prepared",
        'stage "views": prepared() draws from the random numbers that training draws from, too',
    ),
    "a failure in a function of its own": (
        'Tensor:\n        return pooled(self.encoder, batch, "mean")\n\n    def test',
        "Tensor:\n        return self.encoder.nothing(batch)\n\n    def test",
        "self.encoder.nothing",
        "stage \"views\": losses() raises AttributeError: 'Encoder' object has no attribute "
        "'nothing'",
    ),
    "a loss for each row": (
        LOSS, '        return {"views": (first - second).square().sum(1)}\n', "def losses",
        'stage "views": the loss "views" is not a scalar tensor but (8,)',
    ),
    "groups that do not fill a last batch": (
        LOSS, f"        first = first.unflatten(0, (-1, 8)).flatten(0, 1)\n{LOSS}",
        "first.unflatten",
        'stage "views": in a last batch of 3 items: losses() raises RuntimeError: unflatten: '
        "Provided sizes [-1, 8] don't multiply up to the size of dim 0 (3) in the input tensor; "
        "allow for it, or declare batches=Batches(full=True)",
    ),
    "a loss that has no name": (
        LOSS, LOSS.replace('{"views": ', "").replace("}", ""), "def losses",
        "stage \"views\": losses() must return ['views'], but it returned Tensor",
    ),
    "a weight that the first step has not": (
        "trains=trains)", 'trains=trains, losses={"views": lambda step: 1 / step})',
        "lambda step", 'stage "views": the weight of the loss "views" raises '
        "ZeroDivisionError: division by zero",
    ),
    "a buffer that grows": (
        LOSS, f"        self.queue = torch.cat([self.queue, first.detach()])\n{LOSS}",
        "def losses",
        'stage "views": its saved state does not fit into a fresh method: size mismatch for queue: '
        "copying a param with shape torch.Size([24, 128]) from checkpoint, the shape in current "
        "model is torch.Size([0, 128]); __init__ makes every parameter and buffer, and losses() "
        "keeps their shapes",
    ),
    "a parameter that goes away": (
        LOSS, f"        self.still = None\n{LOSS}", "def losses",
        'stage "views": its saved state does not fit into a fresh method: Missing key(s) in '
        'state_dict: "still"; __init__ makes every parameter and buffer, and losses() keeps their '
        "shapes",
    ),
    "an embedding that loses a single row": (
        EMBED, f"{EMBED}.squeeze()", "def embed",
        "embed() must return (rows, hidden); for 1 sentence it returned (128,)",
    ),
    "an embedding that depends on the batch": (
        EMBED, EMBED.replace("return ", "return 1 / batch.attention_mask.sum() + "), "def embed",
        "embed() depends on the batch: a sentence gets different vectors when it is alone and "
        "when it is beside longer ones",
    ),
    "a random embedding": (
        EMBED, EMBED.replace("return ", "return torch.rand(1) + "), "def embed",
        "embed() is random: the same batch gets other vectors the second time",
    ),
    "a text that cannot be tested": (
        "return text", "return text.nothing", "return text.nothing",
        "the evaluation on test raises AttributeError: 'str' object has no attribute 'nothing'",
    ),
    "published values of a setting alone": (
        "rounds: int", 'published: ClassVar = {"unsup": {"rounds": 3}}\n    rounds: int',
        "class Config",
        "published has the key 'unsup'; its keys are (setting, encoder), such as "
        '("unsup", "*")',
    ),
    "a released field that is none": (
        "rounds: int", 'released: ClassVar = frozenset({"round"})\n    rounds: int', "class Config",
        'released names "round", which is no field; did you mean "rounds"?',
    ),
    "defaults that contradict each other": (
        "Field(4", "Field(0", "class Config",
        "the defaults are refused by their own configuration: broken: rounds = 0: "
        "Input should be greater than or equal to 1",
    ),
}  # fmt: skip
"""Name -> text of RIGHT, its replacement, text on the line that is named, sentence"""


def written(folder: Path, text: str) -> Path:
    """The file of a plugin with this text."""
    path = folder / "broken.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_plugin_that_is_broken_below_keeps_the_contract(tmp_path: Path) -> None:
    assert problems(str(written(tmp_path, RIGHT))) == []


@pytest.mark.slow
def test_a_counter_that_is_saved_is_right(tmp_path: Path) -> None:
    """A plugin may keep state of its own from step to step."""
    counts = LOSS.replace("info_nce(", "self.calls * info_nce(")
    text = RIGHT.replace(LOSS, f"        self.calls += 1\n{counts}{SAVED}")
    assert problems(str(written(tmp_path, text))) == []


@pytest.mark.slow
def test_losses_that_only_a_training_can_compute_are_right(tmp_path: Path) -> None:
    """They ask for a gradient or for the mode, or keep a tensor that cannot be copied."""
    lines = ["assert self.training", "self.last = first", "torch.autograd.grad(first.sum(), first)"]
    text = RIGHT.replace(LOSS, "".join(f"        {line}\n" for line in lines) + LOSS)
    assert problems(str(written(tmp_path, text))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, at, sentence = FAULTS[name]
    assert old in RIGHT
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, RIGHT.replace(old, new))
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if at in line]
    assert problems(str(path)) == [f"broken.py:{number}: {sentence}"]


@pytest.mark.slow
def test_a_fault_of_one_setting_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that all settings have is named once, without them."""
    monkeypatch.chdir(tmp_path)
    declared = 'setting: plugin.Setting = "unsup"\n    precision:'
    text = RIGHT.replace("precision:", declared)
    everywhere = text.replace('"head.*"', '"heads.*"')
    (problem,) = problems(str(written(tmp_path, everywhere)))
    assert problem.partition(" ")[2].startswith('stage "views": the pattern')
    once = text.replace(LOSS, f'        assert self.config.setting != "sup", "no labels"\n{LOSS}')
    (tmp_path / "once").mkdir()
    (problem,) = problems(str(written(tmp_path / "once", once)))
    assert 'setting sup: stage "views": losses() raises AssertionError: no labels' in problem


@pytest.mark.slow
def test_one_exception_on_two_ways_is_one_fault(tmp_path: Path) -> None:
    broken = RIGHT.replace('(self.encoder, batch, "mean")', "(self.nothing, batch)")
    broken = broken.replace("self.vectors(texts)", "self.embed(texts)")
    (found,) = problems(str(written(tmp_path, broken)))
    assert found.endswith(
        "losses() raises AttributeError: 'Method' object has no attribute 'nothing'"
    )


@pytest.mark.slow
def test_another_encoder(tmp_path: Path, tiny_roberta: Path) -> None:
    """A plugin that works with a BERT may fail with a RoBERTa, which has one type of segment."""
    lines = ["segments = self.encoder.model.embeddings.token_type_embeddings", "segments.weight[1]"]
    text = RIGHT.replace(LOSS, "".join(f"        {line}\n" for line in lines) + LOSS)
    path = str(written(tmp_path, text))
    assert problems(path) == []
    (found,) = problems(path, str(tiny_roberta))
    assert "IndexError" in found
