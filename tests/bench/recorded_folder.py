"""A result folder on disk: a recorded summary with raw samples that were drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from tests.bench.recorded_summary import Record, recorded_manifest, recorded_summary

from ninelives_bench.samples import SampleStore

Floats = npt.NDArray[np.float64]


def write_folder(
    root: Path, *, summary: Record | None = None, manifest: Record | None = None, seed: int = 1,
    slowdown: float = 1.0, samples: bool = True,
) -> Path:  # fmt: skip
    """Write a result folder; `slowdown` stretches every raw sample, not the summary."""
    root.mkdir(parents=True)
    known = recorded_summary() if summary is None else summary
    (root / "summary.json").write_bytes(orjson.dumps(known))
    (root / "manifest.json").write_bytes(orjson.dumps(recorded_manifest() if manifest is None else manifest))
    if samples:
        _write_samples(SampleStore(root / "samples"), known, np.random.default_rng(seed), slowdown)
    return root


def _write_samples(store: SampleStore, summary: Record, random: np.random.Generator, slowdown: float) -> None:
    for arm in summary["b7"]["arms"]:
        due = np.sort(random.uniform(0, arm["seconds"], 2_000))
        waits = _waits(random, 2_000, arm["response_ms"]["p50"]) * slowdown
        every = np.ones(2_000, dtype=bool)
        store.save(f"b7-{arm['name']}", {
            "node": np.zeros(2_000, dtype=np.int8), "due_s": due, "response_ms": waits, "service_ms": 0.9 * waits,
            "answered": every, "handed": every,
        })  # fmt: skip
    for arm in summary["b7"].get("saturations", []):
        due = np.sort(random.uniform(0, arm["seconds"], round(4_000 / slowdown)))
        columns: dict[str, npt.NDArray[Any]] = {"due_s": due, "service_ms": _waits(random, len(due), 5.0)}
        store.save(f"b7-{arm['name']}", columns)
    for arm in summary["engine"]["arms"]:
        due = np.sort(random.uniform(0, arm["seconds"], 1_500))
        waits = _waits(random, 1_500, arm["response_ms"]["p50"]) * slowdown
        every = np.ones(1_500, dtype=bool)
        columns = {"due_s": due, "response_ms": waits, "done": every, "done_s": due + waits / 1e3}
        store.save(f"engine-{arm['name']}", columns)
    for arm in summary["b8"]["arms"]:
        waits = _waits(random, arm["ms"]["n"], arm["ms"]["p50"]) * slowdown
        variant = f"{arm['cache']}_{arm['load_per_s']}"
        store.save(f"b8_{arm['depth']}_{variant}", {"ms": waits, "claim_ms": 0.8 * waits, "recall_ms": 0.2 * waits})


def _waits(random: np.random.Generator, count: int, middle: float) -> Floats:
    drawn: Floats = middle * random.lognormal(0.0, 0.42, count)
    return drawn
