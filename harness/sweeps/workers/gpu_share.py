"""The share of a GPU that a trial gets, when the measured memory of earlier ones decides.

The first trial of a kind has a GPU of its own. What torch allocated at its peak decides how many
trials of this kind share a GPU. A process may not use more than its share (`allowed_fraction`); a
trial that needs more is run again with a whole GPU, so a share that is too small costs time only.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import floor
from typing import Any, Literal

from harness.data.revisions import parts_of
from harness.sweeps.machines import Gpu
from harness.sweeps.pool import Job
from harness.trials.store import Store
from harness.trials.trial import Trial

HEADROOM = 1.25
"""Memory for a trial as a multiple of its kind's peak: torch's allocator cannot use every gap
between its blocks, and another trial may meet longer sentences"""
CONTEXT_MIB = 768
"""Memory of a process on a GPU besides torch's tensors: CUDA's context and its kernels"""
MOST_TOGETHER = 8
"""More trials on one GPU would only wait for one another"""
NEEDS_MORE = "it needs more than its share of a GPU, and will have a whole one"

Kind = tuple[str, str, str]
"""Method, setting, encoder"""


def share_of(peak_mib: float, gpu_mib: float) -> float:
    """The share of a GPU with `gpu_mib` for a trial whose tensors took `peak_mib`: 1, 1/2, 1/3, ...

    It is rounded down to the four decimals that Ray counts, so that as many fit as are meant to.
    """
    together = floor(gpu_mib / (HEADROOM * peak_mib + CONTEXT_MIB))
    together = max(1, min(MOST_TOGETHER, together))
    return floor(10_000 / together) / 10_000


def allowed_fraction(share: float, gpu_mib: float) -> float:
    """The fraction of a GPU's memory that torch may allocate in a process with this share."""
    return max(0.0, share - CONTEXT_MIB / gpu_mib)


def batch_tokens(configuration: Mapping[str, Any]) -> int:
    """The size of a configuration's batches: items of all streams, times the longest sentence."""
    items = sum(int(value) for name, value in configuration.items() if name.endswith("batch_size"))
    return items * int(configuration.get("max_length", 1))


class GpuShares:
    """Decides for each job of a sweep which share of a GPU it gets."""

    def __init__(
        self, wanted: float | Literal["auto"], gpus: Sequence[Gpu], count: float, store: Store
    ) -> None:
        """`wanted`: GPUs of one trial, or `auto`. `gpus`: those of all machines, as far as known.

        `count`: the number of GPUs for Ray. With `auto`, the trials in the store that ran on such
        GPUs decide as well.
        """
        self.wanted, self.count = wanted, count
        self._models = {gpu.name for gpu in gpus}
        self._gpu_mib = min((gpu.memory_mib for gpu in gpus), default=0)
        """A share must suffice on the smallest GPU"""
        self._peaks: dict[Kind, dict[int, float]] = defaultdict(dict)
        """Kind -> size of the batches -> the largest GPU memory that such trials took"""
        self._whole: set[Kind] = set()
        """Kinds of which a trial needed more than its share"""
        self._measuring: set[str] = set()
        """Keys of the running jobs that have a GPU of their own because nothing is known yet"""
        if wanted == "auto" and gpus:
            self._learn(store)

    def _learn(self, store: Store) -> None:
        columns = ("method", "setting", "encoder", "configuration", "peak_gpu_memory_mib", "device")
        for row in store.read(columns, {"device": self._models}).table.to_pylist():
            if row["peak_gpu_memory_mib"] is None:
                continue
            kind = (row["method"], row["setting"], parts_of(row["encoder"])[0])
            tokens = batch_tokens(json.loads(row["configuration"]))
            self._learn_peak(kind, tokens, row["peak_gpu_memory_mib"])

    def _learn_peak(self, kind: Kind, tokens: int, peak_mib: float) -> None:
        self._peaks[kind][tokens] = max(peak_mib, self._peaks[kind].get(tokens, 0.0))

    def _peak(self, kind: Kind, tokens: int) -> float | None:
        """The peak of trials with such batches, or of the next larger ones; None: not known."""
        larger = [size for size in self._peaks[kind] if size >= tokens]
        return self._peaks[kind][min(larger)] if larger else None

    @property
    def least(self) -> float:
        """The smallest share that a trial may get; 0: trials run on CPUs."""
        return round(1 / MOST_TOGETHER, 4) if self.wanted == "auto" else self.wanted

    def least_of(self, job: Job) -> float:
        """The smallest number of GPUs for each worker of a job."""
        return 1.0 if self.wanted and job.workers > 1 else self.least

    @property
    def waiting(self) -> bool:
        """Whether every GPU has a trial that is being measured, so that no further one can start.

        A job that was handed out now would have to be given a whole GPU, too.
        """
        return 0 < self.count <= len(self._measuring)

    def begun(self, job: Job) -> float:
        """The GPUs of a job that is handed out."""
        if job.part and not job.part.computes:
            return 0.0
        kind, tokens = _described(job.trial)
        if self.wanted and not job.part and job.trial.workers > 1:
            return 1.0  # its workers talk through NCCL, which needs a GPU for each
        if self.wanted != "auto":
            return 1.0 if kind in self._whole else self.wanted
        if kind in self._whole or not self._gpu_mib:
            return 1.0
        # The peak of a trial says nothing about a part, which another trial may have made for it.
        peak = None if job.part else self._peak(kind, tokens)
        if peak is None:
            self._measuring.add(job.key)
            return 1.0
        return share_of(peak, self._gpu_mib)

    def ended(self, key: str, trial: Trial, report: Mapping[str, Any]) -> None:
        """Learn from a job that has ended. `report`: what its worker says; empty: it died."""
        self._measuring.discard(key)
        kind, tokens = _described(trial)
        if report.get("needs_more"):
            self._whole.add(kind)
        elif report.get("peak_gpu_memory_mib") and report["device"] in self._models:
            self._learn_peak(kind, tokens, report["peak_gpu_memory_mib"])


def _described(trial: Trial) -> tuple[Kind, int]:
    """The kind of a trial, and the size of its batches."""
    config = trial.config
    kind = (trial.declared.name, config.setting, parts_of(config.encoder)[0])
    return kind, batch_tokens(dict(config))
