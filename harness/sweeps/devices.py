"""Devices by their data sheets, and the seconds that operations take on them.

Seconds are operations over the peak of a data sheet times the share of it that trainings reach. On
a CPU the share was measured (benchmarks/README.md, "Plans"); on GPUs it was not yet, so that the
interval is wide there. What the machine does meanwhile does not matter.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError, suggest
from harness.plugin.config import TrainingConfig
from harness.plugin.operations import shape_of
from harness.sweeps.machines import Machine
from harness.sweeps.operations import Part, parts_of_trial
from harness.trials.trial import Trial

CPU = "cpu"


@dataclass(frozen=True)
class Bounds:
    """The least and the most of a number that is not known exactly; nan: nothing is known of it."""

    least: float
    most: float

    @property
    def known(self) -> bool:
        """Whether anything is known of it."""
        return not math.isnan(self.least)

    @property
    def middle(self) -> float:
        """Their geometric mean, which is a factor from both."""
        return math.sqrt(self.least * self.most)

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.least + other.least, self.most + other.most)

    def times(self, least: float, most: float | None = None) -> "Bounds":
        """The bounds of a product with a number, or with one between two numbers."""
        return Bounds(self.least * least, self.most * (least if most is None else most))

    def shown(self, text: Callable[[float], str] = lambda number: f"{round(number):,}") -> str:
        """The two as text, or the one that both are; of one unit, as `2 to 5 h`."""
        if not self.known:
            return "?"
        least, most = text(self.least), text(self.most)
        if least == most:
            return least
        number, _, unit = least.rpartition(" ")
        return f"{number if number and most.endswith(f' {unit}') else least} to {most}"


def joined(several: Sequence[Bounds]) -> Bounds:
    """From the least to the most of several, of which there is one at least."""
    if not all(each.known for each in several):
        return UNKNOWN
    return Bounds(min(each.least for each in several), max(each.most for each in several))


NOTHING, UNKNOWN = Bounds(0, 0), Bounds(math.nan, math.nan)


@dataclass(frozen=True)
class Device:
    """Something that computes a trial."""

    name: str
    """Name that `--device` takes"""
    title: str
    rounded: float
    """Operations per second in bf16, or else in fp16, without sparsity"""
    exact: float
    """Operations per second in float32"""
    memory: float
    """GiB"""
    gain: float = 1.0
    """Factor on the usual share of `exact`"""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.name != CPU


GPUS = (
    Device("h200", "NVIDIA H200 SXM", 989e12, 67e12, 141),
    Device("h100", "NVIDIA H100 SXM", 989e12, 67e12, 80),
    Device("a100", "NVIDIA A100 SXM 80GB", 312e12, 19.5e12, 80),
    Device("l40s", "NVIDIA L40S", 362e12, 91.6e12, 48),
    Device("l4", "NVIDIA L4", 121e12, 30.3e12, 24),
    Device("a10", "NVIDIA A10", 125e12, 31.2e12, 24),
    Device("v100", "NVIDIA V100 SXM2 32GB", 125e12, 15.7e12, 32),
    Device("t4", "NVIDIA T4", 65e12, 8.1e12, 16),
)
"""NVIDIA's data sheets of these products: bf16 on Tensor Cores (V100, T4: fp16), float32, memory"""
GPU_SHARES = {64: 0.175, 512: 0.4}
"""Items in a batch -> share of a GPU's peak. Nobody has measured it here: it is a reading of 15 to
20 % and of 40 % with BERT base. Between them it is interpolated, and beyond them it stays"""
GPU_UNSURE, CPU_UNSURE = 1.6, 1.4
"""Factors, up and down, by which an estimate may be wrong"""
GPU_STEP, GPU_LAYER, GPU_TRIAL = 0.003, 0.0006, 20.0
"""Least seconds of a step on a GPU and of each layer in it, whose launches the CPU makes, and
seconds of a trial beside its work; guessed as the share is"""
PER_CYCLE = {"avx512f": 64, "avx2": 32}
"""Capability of a CPU -> float32 operations of a core in a cycle: two units, each of which
multiplies and adds so many numbers at once; 8 where there is neither"""
HALVED = ("AuthenticAMD", "25")
"""Vendor and family of the CPUs that do an operation of avx512f in two halves (AMD's Software
Optimization Guide for Zen 4)"""
HALVED_GAIN = 1.25
"""Factor on their share in float32: work beside products is not halved"""
ROUNDED_TIMES = {"amx_bf16": 32, "avx512_bf16": 2}
"""Capability of a CPU -> its products in bf16 in the time of one in float32, by its width"""
CPU_SHARES = {128: (0.28, 0.2), 384: (0.6, 0.52), 768: (0.6, 0.52)}
"""Width of an encoder -> shares of the peak in float32 and in bf16 that trials reach"""
CPU_EVALUATION = 1.75
"""Share in evaluations, which need no gradients, as a multiple of that in float32"""
AMX_SHARE = 0.035
"""Share of what AMX could do that a training reaches: its products are short beside the rest"""
CPU_STEP, CPU_STAGE, CPU_TRIAL = 0.03, 1.5, 0.7
"""Seconds of a step, of a stage (its first steps are slow) and of a trial beside the work, on one
core"""
SPEED_UP = 0.85
"""Exponent of the speed of n cores against one: n to the power of this (two: 1.8)"""
CLOCK = 2.5e9
"""Cycles per second where the machine does not tell"""


def named_device(name: str) -> Device:
    """The device of a name as `--device` has it. Raises UserError for another one."""
    devices = {device.name: device for device in GPUS}
    if name == CPU:
        return this_cpu()
    if name not in devices:
        raise UserError(f"--device {name}: there is no such device{suggest(name, [*devices, CPU])}")
    return devices[name]


def device_here(machine: Machine) -> Device | None:
    """The device on which trials of a machine compute; None: a GPU that has no data sheet here."""
    if not machine.gpus:
        return this_cpu()
    words = [re.split(r"[^a-z0-9]+", gpu.name.lower()) for gpu in machine.gpus]
    return next((device for each in words for device in GPUS if device.name in each), None)


def check_gpus(device: Device | None, gpus: int | None) -> None:
    """Raise UserError for a number of GPUs that cannot be."""
    if gpus is None:
        return
    if gpus < 1:
        raise UserError(f"--gpus {gpus}: write a whole number, at least 1")
    if device is None or not device.is_gpu:
        names = ", ".join(each.name for each in GPUS)
        raise UserError(f"--gpus {gpus} needs a GPU: name one with --device ({names})")


@functools.cache
def this_cpu() -> Device:
    """A core of the CPU of this machine, by its clock and its capabilities."""
    try:
        return cpu_of(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"))
    except OSError:
        return cpu_of("")


def cpu_of(facts: str) -> Device:
    """A core of the CPU of which Linux says these facts, as in /proc/cpuinfo."""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", facts, re.MULTILINE))
    flags = set(fields.get("flags", "").split())
    rated = re.search(r"@ ([\d.]+)GHz", fields.get("model name", ""))
    clock = float(rated[1]) * 1e9 if rated else float(fields.get("cpu MHz", CLOCK / 1e6)) * 1e6
    halved = "avx512f" in flags and (fields.get("vendor_id"), fields.get("cpu family")) == HALVED
    if halved:
        flags.remove("avx512f")
    wide = next((number for flag, number in PER_CYCLE.items() if flag in flags), 8)
    times = next((number for flag, number in ROUNDED_TIMES.items() if flag in flags), 1)
    gain = HALVED_GAIN if halved else 1.0
    exact = wide * clock
    return Device(CPU, "a core of this machine", times * exact, exact, 0, gain)


def seconds_of(trial: Trial, parts: Iterable[Part], device: Device, cores: float) -> Bounds:
    """An estimate of the seconds that parts of a trial take on one device, once each.

    cores: CPU cores of a trial, where the device is a CPU.
    """
    config = trial.config
    width = shape_of(config.encoder).hidden if trial.declared.models else 1
    precision = config.precision if isinstance(config, TrainingConfig) else "fp32"
    items = sum(sum(stage.streams.values()) for stage in trial.declared.stages[-1:])
    whole = 0.0
    for part in parts:
        rounded = 0.0 if precision == "fp32" else part.operations
        exact = part.operations - rounded + part.exact
        if device.is_gpu:
            work = rounded / device.rounded / _gpu_share(items, width)
            work += (exact + part.evaluated) / device.exact / _gpu_share(512, width)
            whole += max(work, (GPU_STEP + GPU_LAYER * part.layers) * part.steps)
        else:
            in_float32, in_bf16 = _cpu_shares(width, device)
            exact += part.evaluated / CPU_EVALUATION
            work = rounded / device.rounded / in_bf16 + exact / device.exact / in_float32
            beside_it = CPU_STEP * part.steps + CPU_STAGE * (part.steps > 0)
            whole += work / max(1.0, cores) ** SPEED_UP + beside_it
    unsure = GPU_UNSURE if device.is_gpu else CPU_UNSURE
    return Bounds(whole / unsure, whole * unsure)


def estimated(trial: Trial, device: Device, cores: float = 1) -> Bounds:
    """The estimated seconds of a whole trial, unknown where a model or a corpus is."""
    if (parts := parts_of_trial(trial)) is None:
        return UNKNOWN
    return seconds_of(trial, parts, device, cores) + beside(device)


def beside(device: Device) -> Bounds:
    """Seconds of a trial that are not its work, such as reading its model and its data."""
    seconds = GPU_TRIAL if device.is_gpu else CPU_TRIAL
    return Bounds(seconds / 2, seconds * 2)


def _gpu_share(items: int, width: int) -> float:
    """The share of a GPU's peak; narrow encoders have less work for each launch."""
    (low, least), (high, most) = GPU_SHARES.items()
    place = min(1.0, max(0.0, math.log(max(1, items) / low) / math.log(high / low)))
    return (least + place * (most - least)) * min(1.0, width / 768)


def _cpu_shares(width: int, device: Device) -> tuple[float, float]:
    """The shares of a CPU's peak in float32 and in bf16, those of the nearest width."""
    nearest = min(CPU_SHARES, key=lambda known: abs(math.log(known / max(1, width))))
    exact, rounded = CPU_SHARES[nearest]
    exact *= device.gain
    times = device.rounded / device.exact
    if times == 1:  # products in bf16 are not used where the CPU has none
        return exact, exact
    return exact, rounded if times < 8 else AMX_SHARE
