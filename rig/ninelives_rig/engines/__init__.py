"""Engines under test, each behind the protocol of ``base``; loaded by name, so that one can be missing."""

from __future__ import annotations

import importlib
from typing import cast

from ninelives_rig.engines.base import Engine
from ninelives_rig.refusal import Refused

_MODULES = {"reference": "ninelives_rig.engines.reference", "naive": "ninelives_rig.engines.naive"}


def engine_names() -> list[str]:
    """Return the names that ``load_engine`` knows."""
    return sorted(_MODULES)


def load_engine(name: str) -> Engine:
    """Return the engine of this name; ``Refused`` lists the known ones."""
    if name not in _MODULES:
        raise Refused(f"no engine {name!r}; choose one of {', '.join(engine_names())}")
    return cast(Engine, importlib.import_module(_MODULES[name]).ENGINE)
