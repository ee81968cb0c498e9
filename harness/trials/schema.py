"""The columns of a Parquet file with records."""

import pyarrow as pa

_TEXT, _REAL, _COUNT, _SHORT = pa.string(), pa.float64(), pa.int64(), pa.int32()
_METRICS = pa.map_(_TEXT, _REAL)
_INTERVALS = pa.map_(
    _TEXT, pa.struct([(name, _REAL) for name in ("standard_error", "low", "high")])
)
_CURVES = pa.list_(
    pa.struct([("step", _COUNT), ("stage", _TEXT), ("metric", _TEXT), ("value", _REAL)])
)
SCHEMA = pa.schema([
    ("key", _TEXT), ("schema_version", _SHORT), ("status", _TEXT), ("reason", _TEXT),
    ("role", _TEXT), ("search", _TEXT), ("suite", _TEXT), ("suite_card", _TEXT),
    ("evaluates", _TEXT), ("method", _TEXT), ("setting", _TEXT), ("encoder", _TEXT),
    ("seed", _COUNT), ("label_fraction", _REAL), ("subset", _COUNT), ("configuration", _TEXT),
    ("selected_by", _TEXT), ("dev_before", _REAL), ("dev", _METRICS), ("test", _METRICS),
    ("details", _METRICS), ("uncertainty", _INTERVALS), ("contamination", _METRICS),
    ("history", _CURVES), ("steps", _COUNT), ("wall_seconds", _REAL),
    ("training_seconds", _REAL), ("evaluation_seconds", _REAL), ("sentences_per_second", _REAL),
    ("peak_host_memory_mib", _REAL), ("peak_gpu_memory_mib", _REAL),
    ("parameters_total", _COUNT), ("parameters_trainable", _COUNT), ("parameters_added", _COUNT),
    ("precision", _TEXT), ("engine", _TEXT), ("threads", _SHORT), ("host", _TEXT),
    ("device", _TEXT), ("started", pa.timestamp("us", tz="UTC")), ("versions", _TEXT),
    ("commit", _TEXT), ("plugin", _TEXT), ("source_digest", _TEXT), ("data_digest", _TEXT),
    ("model_digest", _TEXT), ("weights_digest", _TEXT), ("revisions", _TEXT),
    ("protocol", _SHORT), ("searched", _TEXT), ("corpora", _TEXT),
])  # fmt: skip
"""The columns, in order; `Record` says what each of them means"""
LARGE_COLUMNS = ("details", "uncertainty", "history")
"""Columns that are most of a row's bytes, and that few readers need"""
WITHOUT_LARGE = tuple(name for name in SCHEMA.names if name not in LARGE_COLUMNS)
