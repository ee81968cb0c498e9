"""Reads back what trackers have written, each with its own library or by its file format."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Seen:
    """A run, as a tracker has it."""

    name: str
    group: str
    values: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Metric -> (step, value) in the order of writing"""
    configuration: dict[str, Any] = field(default_factory=dict)
    status: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    """Scores that were kept at the end"""


def tensorboard(folder: Path) -> list[Seen]:
    """The runs in event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = []
    for place in sorted((folder / "tensorboard").glob("*/*")):
        events = EventAccumulator(str(place), size_guidance={"scalars": 0}).Reload()
        seen = Seen(place.name, place.parent.name)
        for tag in events.Tags()["scalars"]:
            seen.values[tag] = [(each.step, each.value) for each in events.Scalars(tag)]
        seen.scores = {tag: points[-1][1] for tag, points in seen.values.items()}
        texts = {each.removesuffix("/text_summary"): each for each in events.Tags()["tensors"]}
        for tag, whole in texts.items():
            text = events.Tensors(whole)[-1].tensor_proto.string_val[0].decode()
            if tag == "status":
                seen.status = text
            else:
                seen.configuration = {"text": text}
        runs.append(seen)
    return runs


def mlflow(folder: Path) -> list[Seen]:
    """The runs in the database."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    names = {each.experiment_id: each.name for each in client.search_experiments()}
    runs = []
    for run in client.search_runs([*names]):
        seen = Seen(run.info.run_name, names[run.info.experiment_id])
        for metric in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, metric)
            seen.values[metric] = [(each.step, each.value) for each in history]
        seen.scores, seen.configuration = run.data.metrics, run.data.params
        seen.status = run.info.status
        runs.append(seen)
    return runs


def wandb(folder: Path) -> list[Seen]:
    """The runs in files of the offline mode; the attempts of a run are one run."""
    import json

    from wandb.proto.wandb_internal_pb2 import Record

    runs: dict[str, Seen] = {}
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        seen = Seen("", "")
        for data in _records(path.read_bytes()):
            record = Record.FromString(data)
            if record.HasField("run"):
                run = record.run
                seen = runs.setdefault(run.run_id, Seen(run.display_name, run.run_group))
                for item in run.config.update:
                    seen.configuration[item.key] = json.loads(item.value_json)
            elif record.HasField("history"):
                items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json)
                         for item in record.history.item}  # fmt: skip
                for name in items.keys() - {"_step", "_runtime", "_timestamp"}:
                    seen.values.setdefault(name, []).append((items["_step"], items[name]))
            elif record.HasField("summary"):
                for item in record.summary.update:
                    name = "/".join(item.nested_key) or item.key
                    seen.scores[name] = json.loads(item.value_json)
        seen.status = str(seen.scores.get("status", ""))
    return [*runs.values()]


def _records(data: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, after the file's header of seven bytes."""
    position, whole = 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            yield whole
            whole = b""


READERS: dict[str, Callable[[Path], list[Seen]]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
}
