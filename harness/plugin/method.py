"""The contract of a method: what a plugin builds and computes.

A plugin is a folder (or a file) with a class `Method`. What it declares stands in class methods
(harness.plugin.declaration), so that a sweep can be planned without a GPU and without a model.
`losses` and `embed` are the only computations that a plugin must write. The harness does everything
else: batches, the training loop, evaluation, checkpoints, seeds and records.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.data.tokens import Template, piece_ids
from harness.plugin.config import TrainingConfig
from harness.plugin.declaration import Config, Declaration
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage


class Method(nn.Module, Declaration[Config]):
    """A way to train and use a sentence encoder.

    A plugin derives its class from `plugin.Method[Config]`, with its own configuration class in
    the brackets, so that a type checker knows every hyperparameter of `self.config`.

    The harness asks the class methods first, then builds the method from a kit. In training it
    calls `losses` with a batch of every stream of the stage, and sums the losses with the weights
    of the stage. On dev it calls `embed_dev`, in the final test `embed`. All modules of the method
    are in training mode in `losses` and in evaluation mode elsewhere, also where they are frozen.

    What one training step leaves for the next one must be in a parameter, in a buffer, or in
    `get_extra_state` of a module, as a tensor: this is all that a checkpoint holds. A parameter
    that changes must belong to `Stage.trains` or `Stage.moves`.

    Example:
        class Method(plugin.Method[Config]):
            @classmethod
            def corpora(cls, config: Config) -> dict[str, str]:
                return {"pairs": config.pairs}

            @classmethod
            def stages(cls, config: Config) -> list[Stage]:
                return [config.stage("contrastive", streams={"pairs": config.batch_size})]

            def __init__(self, config: Config, kit: Kit) -> None:
                super().__init__(config, kit)
                self.encoder = kit.encoder()

            def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
                texts = batch["pairs"]  # rows 2i and 2i + 1 are the two texts of item i
                first, second = texts.split(self.encoder.cls(texts))  # (items, H) each
                return {"contrastive": info_nce(first, second, temperature=0.05)}

            def embed(self, batch: TextBatch) -> Tensor:
                return self.encoder.cls(batch)
    """

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        """Template around each sentence while the method trains: here [CLS] and [SEP].

        A sweep asks for it before the method is built, and tokenises the corpora accordingly.
        """
        return Template.plain(tokenizer)

    def __init__(self, config: Config, kit: Kit) -> None:
        """Build the modules from the kit. A plugin calls this first, then adds its own.

        `self.template` is what `training_template` returns. Raises UserError when the
        configuration cannot be run.
        """
        super().__init__()
        self.config = config
        self.tokenizer: Any = self.load_tokenizer(kit)
        self.template = self.training_template(config, self.tokenizer)

    def load_tokenizer(self, kit: Kit) -> Any:
        """The encoder's tokenizer. A method without an encoder makes its own."""
        return kit.tokenizer

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        """Input of `losses`, made on the CPU from one batch of each stream.

        Where the training is on a GPU, this runs in another thread while the step before computes.
        So it reads no weights, and draws nothing from torch's random numbers: what is random in it
        follows from the items and the epoch of the batch.
        """
        return batch

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        """The losses of one batch of each stream: loss -> scalar with a gradient.

        batch: stream -> its batch, and what `prepared` has added. The result must hold every loss
        of the stage; the stage has the weights. A method with stages must write this.
        """
        raise NotImplementedError(f"{type(self).__module__} has stages but no losses()")

    def watched(self, stage: Stage) -> dict[str, float]:
        """Name -> value, for quantities that a method follows along a stage.

        The loop calls it before the stage's first step and after every evaluation on dev, in
        evaluation mode, without gradients and in float32. Training goes on as if it had not been
        called. The record's `history` holds the values; the names `loss` and `dev` are taken,
        and so are those with a slash.
        """
        return {}

    @property
    def longest(self) -> int:
        """The most tokens of a test sentence, template included.

        A method that shifts positions has fewer than its encoder.
        """
        encoder: Any = self.encoder  # not every method has one of harness.encoders
        return int(encoder.longest)

    @property
    def training_pieces(self) -> int:
        """The most word pieces of a training sentence, template not counted. The rest is cut."""
        if not isinstance(self.config, TrainingConfig):
            raise TypeError(f"{type(self).__module__} trains nothing, so it cuts no sentence")
        return max(1, self.config.max_length - len(self.template))

    @property
    def evaluation_template(self) -> Template:
        """Template around a sentence of dev or test.

        It differs from `template` where a released code treats training differently.
        """
        return self.template

    @abstractmethod
    def embed(self, batch: TextBatch) -> Tensor:
        """Sentence embeddings at test time, (rows, hidden)."""
        raise NotImplementedError

    def embed_dev(self, batch: TextBatch) -> Tensor:
        """The embeddings that select a checkpoint on dev, (rows, hidden).

        They differ from the test embeddings where those of a paper do.
        """
        return self.embed(batch)

    @property
    def dev_differs(self) -> bool:
        """Whether a sentence may have another vector on dev than on test."""
        own = type(self)
        return own.embed_dev is not Method.embed_dev or own.test_text is not Method.test_text

    def test_text(self, text: str) -> str:
        """A test sentence as the method reads it.

        The method reads sentences of dev and of training unchanged.
        """
        return text


def sentence_pieces(
    method: Method[Any], template: Template, texts: Sequence[str]
) -> list[list[int]]:
    """The word pieces of each text at test time, without the template.

    They are cut only where the positions of the encoder end (simcse.md, section 1.6).
    """
    limit = method.longest - len(template)
    space = " " if template.leading_space else ""
    rows = piece_ids(method.tokenizer, [space + text for text in texts])
    return [pieces[:limit] for pieces in rows]


class FrozenMethod(Method[Config]):
    """A method on top of an encoder that never changes.

    The encoder's vectors are computed once for each sentence and trial. For training they can be
    an artefact of the whole corpus (harness.plugin.frozen_vectors).
    """

    @abstractmethod
    def base(self, batch: TextBatch) -> Tensor:
        """The frozen encoder's sentence vectors, (rows, width)."""
        raise NotImplementedError

    @abstractmethod
    def transform(self, vectors: Tensor) -> Tensor:
        """(rows, width) -> (rows, hidden): what the method makes of them."""
        raise NotImplementedError

    def embed(self, batch: TextBatch) -> Tensor:
        """`transform` of `base`, (rows, hidden)."""
        return self.transform(self.base(batch))
