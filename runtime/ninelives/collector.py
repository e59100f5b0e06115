"""Python's cyclic collector, set for a process with thousands of instances in flight."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 50_000
"""How many more objects than before start a collection. Python's 700 is a fraction of what a node has in flight, so
nearly every batch would be searched for cycles in vain: it cost 40 % of a node's CPU (measured, 2 000 in flight)."""


def tune_collector() -> None:
    """Collect less often, and never again what is there now: modules, plans, settings.

    For the whole process; ``Node.run`` calls it, since a process that serves is a node. Call it yourself where a
    node shares its process with what starts flows. Cycles are still found, after ``YOUNG_OBJECTS`` more objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
