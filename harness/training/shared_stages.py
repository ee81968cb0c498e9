"""The states of a stage that trials share, in the cache.

Trials that differ only in what comes after a stage run that stage once between them. A trial that
trains it to step N leaves its states at every 250th step and at N. Another trial that agrees in
all that matters starts from the last state at or before its own N. This is exact to the last bit,
because batches are a function of seed and step, and the random state is kept. Where the rate at a
step depends on N, as with a warm-up or without `decay_steps`, only trials of one N share the stage.
The history is kept as well, so a trial's record does not show which trial ran the stage.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harness import PROTOCOL, shared_cache
from harness.device import kind_of_machine, resolve_precision
from harness.errors import UserError
from harness.files import cache_folder, digest_of
from harness.locks import locked
from harness.manifests import MANIFEST, seal
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.training.saved_state import SavedState

_logger = logging.getLogger(__name__)
STATE_INTERVAL = 250
_DECLARED_BY_STAGE = {
    "learning_rate", "batch_size", "epochs", "max_steps", "accumulation", "temperature",
    "sentences", "triplets", "evaluation_interval",
}  # fmt: skip
"""Fields of every method of which a stage declares what it has of them"""
_FORMAT = 3
"""Raised when what a state holds changes"""


class StageStates:
    """The states of one stage that trials share."""

    def __init__(
        self, folder: Path, elsewhere: Collection[str] = (), asked: Collection[int] = ()
    ) -> None:
        """`elsewhere`: names of the parameters that other stages train, and this one does not.

        `asked`: further steps after which a state is kept, because trials end the stage there.
        """
        self.folder, self.elsewhere, self.asked = folder, elsewhere, asked

    @staticmethod
    def identity(stage: Stage, kit: Kit, seed: int, interval: int, scored: str) -> str:
        """The digest of all that trials must agree in to share the states of a stage.

        `scored`: the digest of what gives the dev scores, which are a part of the states. The kind
        of machine matters as well, but a driver does not know that of its workers.
        """
        assert stage.shared is not None
        config = kit.config
        # The loop reads these fields itself, so a method need not name them; rates and sizes are
        # those that the stage declares.
        fields = {*TrainingConfig.model_fields} - _DECLARED_BY_STAGE
        fields |= {*stage.shared, *stage.trains.values()}
        values = {field: getattr(config, field) for field in sorted(fields)}
        weights = {name: weight for name, weight in stage.losses.items() if not callable(weight)}
        declared = [
            stage.name, stage.trains, stage.streams, weights, stage.accumulation, stage.moves,
            stage.batches, stage.optimisation, stage.selection,
        ]  # fmt: skip
        length = kit.declared.shared_length(stage)
        return digest_of([kit.identity(), declared, values, seed, interval, scored, *length])

    @classmethod
    def folder_of(cls, stage: Stage, kit: Kit, seed: int, interval: int, scored: str) -> Path:
        """The folder of the states of this stage, seed, interval and kind of machine."""
        assert isinstance(kit.config, TrainingConfig)
        machine = [
            *kind_of_machine(kit.device),
            resolve_precision(kit.config.precision, kit.device),
        ]
        identity = cls.identity(stage, kit, seed, interval, scored)
        digest = digest_of([identity, machine, PROTOCOL, _FORMAT])
        return cache_folder() / "stages" / f"{kit.declared.name}-{stage.name}-{digest}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """One trial at a time runs the stage; the others wait for its states.

        They are fetched from the shared cache before the block, and sent there after it.
        """
        manifest = self.folder / MANIFEST
        with locked(self.folder / "lock", f"the first stage {self.folder.name}"):
            shared_cache.fetch(manifest)
            yield
            if shared_cache.in_use() and (kept := self._kept()):
                with suppress(OSError):  # the disk is full; the stage is then not shared
                    seal(manifest, [self._path(step) for step in sorted(kept)])
                    shared_cache.send(manifest)

    def latest(self, after: int, steps: int) -> tuple[int, SavedState | None]:
        """The last usable state after step `after` of a stage of `steps` steps, and its step.

        (after, None) when there is none.
        """
        for step in sorted(self._kept(), reverse=True):
            if after < step <= steps:
                saved = self._read(step)
                # Only the newest state has the optimiser's, without which no step can follow.
                if saved and (step == steps or saved.optimiser):
                    return step, saved
        return after, None

    def due(self, step: int, steps: int) -> bool:
        """Whether the state after this step is kept."""
        return step % STATE_INTERVAL == 0 or step == steps or step in self.asked

    def keep(self, step: int, saved: SavedState) -> None:
        """Write the state after this step.

        The older ones lose their optimiser's, because they are ends of shorter stages only. When
        it cannot be written, for example on a full disk, this is logged; the training goes on.
        """
        weights, best = (
            {name: value for name, value in part.items() if name not in self.elsewhere}
            for part in (saved.weights, saved.best)
        )
        try:
            replace(saved, weights=weights, best=best).write(self._path(step))
            for older in self._kept():
                if older < step and (before := self._read(older)) and before.optimiser:
                    replace(before, optimiser={}).write(self._path(older))
        except OSError as error:  # a full disk, for example: the stage is then not shared
            _logger.warning("the state %s of a shared stage is not kept: %s", step, error)

    def _read(self, step: int) -> SavedState | None:
        """The state after a step; a damaged one is reported and removed."""
        try:
            return SavedState.read(self._path(step))
        except UserError as error:
            _logger.warning("the state of a shared stage is made again: %s", error)
            self._path(step).unlink(missing_ok=True)
            return None

    def _kept(self) -> list[int]:
        return [int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit()]

    def _path(self, step: int) -> Path:
        return self.folder / f"{step}.safetensors"
