"""The computations of DiffAug; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness import plugin
from harness.data.templates import first_prompt
from harness.data.tokens import Template
from harness.encoders.backbone import Encoder
from harness.losses.info_nce import info_nce
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.denoising import distinct_lengths, template_vectors
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .adapters import LowRankModules
from .analysis import PrefixAnalysis
from .prefixes import VIEW_MODULES, PrefixModules


class Method(Declaration, plugin.Method[Config]):
    """theta of the paper is `augmentation` (the two modules), phi is `encoder`."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        wrapped = first_prompt(tokenizer, config.encoder, config.template)
        return wrapped if config.roberta_prefix_space else wrapped.without_leading_space()

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.encoder.family.need_positions(
            "denoising sets", "choose an encoder such as BERT or ModernBERT"
        )
        width = self.encoder.hidden_size
        self.head = TanhHead(width)
        self.classifier = PairClassifier(width, classes=2)
        self.augmentation = self._build_augmentation(config)
        self.analysis = (
            PrefixAnalysis(self, kit, config.sentences, config.triplets)
            if config.analysis
            else None
        )

    def _build_augmentation(self, config: Config) -> PrefixModules | LowRankModules:
        """Prefixes, or their alternatives of Table 3."""
        if config.augmentation == "prefix":
            return PrefixModules(
                self.encoder,
                config.prompt_length,
                share_network=config.share_network,
                shift=config.position_shift,
            )
        return LowRankModules(
            self.encoder,
            config.augmentation,
            config.rank,
            scale=config.lora_scale,
            combination=config.combination,
        )

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the template comes on top."""
        return self.config.max_length

    @property
    def evaluation_template(self) -> Template:
        return first_prompt(self.tokenizer, self.config.encoder, self.config.template)

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.augmentation.position_offset

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if "labelled" in batch:
            vectors = self._vectors(batch["labelled"], denoised=False)
            found["classification"] = triplet_loss(self.classifier, *vectors)  # L_ce, eq. 4
        if "contrastive" in batch:
            texts = batch["contrastive"]
            if self.config.setting != "sup":
                texts = texts.repeated(2)  # two views, (2 * items) rows
            vectors = self._vectors(texts, denoised=True)
            found["contrastive"] = info_nce(  # L_cl, eq. 1
                *vectors, temperature=self.config.temperature
            )
        return found

    def watched(self, stage: Stage) -> dict[str, float]:
        return self.analysis() if self.analysis and stage.name == "augmentation" else {}

    def embed(self, batch: TextBatch) -> Tensor:
        """One pass in which both modules are visible; no head and no denoising (appendix A)."""
        return self.states(batch, None)

    def states(self, batch: TextBatch, modules: Tensor | None) -> Tensor:
        """f(x; theta, phi): the state at the mask, (rows, H).

        modules: (rows,), the number of the module that each row meets; None: both.
        """
        reach = self.augmentation.reach(len(batch.input_ids), modules)
        return self.encoder.at(batch, self.template.mask_positions(batch.attention_mask), **reach)

    def _vectors(self, texts: TextBatch, *, denoised: bool) -> tuple[Tensor, ...]:
        """Training vectors of each view, (items, H).

        Premises and first views meet module 0, all others module 1 (diffaug.md, section 1.3).
        """
        view = torch.arange(len(texts.input_ids), device=texts.input_ids.device) % texts.views
        modules = None if self.config.views == "same" else view.clamp(max=1)
        states = self.states(texts, modules)
        if denoised:  # diffaug.md, section 2
            released = self.config.denoising == "released"
            states = states - module_template_vectors(
                self.encoder, self.template, self.augmentation, texts, modules, released=released
            )
        return texts.split(self.head(states))


def module_template_vectors(
    encoder: Encoder,
    template: Template,
    augmentation: PrefixModules | LowRankModules,
    texts: TextBatch,
    modules: Tensor | None,
    *,
    released: bool = False,
) -> Tensor:
    """Vectors that the template alone gives each row at its length and with its module, (rows, H).

    modules: (rows,), the module of each row; None: every row meets both. released: repeat the two
    accidents of the released code (diffaug.md, section 2).
    """
    lengths, row = distinct_lengths(texts, template)
    count = len(lengths)
    if modules is not None:
        # Every length once with module 0, then every length once with module 1.
        row = row + modules * count
        modules = torch.arange(VIEW_MODULES, device=row.device).repeat_interleave(count)
        lengths = lengths.repeat(VIEW_MODULES)
    reach = augmentation.reach(len(lengths), modules)
    if released:
        # It counts the visible prefix flags as length, and RoBERTa's positions from 0.
        lengths = lengths + augmentation.length
        reach["position_offset"] = augmentation.position_offset - encoder.first_position
    return template_vectors(encoder, template, lengths, **reach)[row]
