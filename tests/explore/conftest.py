"""A world to explore in, on the session's server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from ninelives_rig.explore.world import World, open_world
from ninelives_rig.sabotage.planting import Plot

OpenWorld = Callable[[Plot], AbstractContextManager[World]]


@pytest.fixture
def open_explored(database_dsn: str) -> OpenWorld:
    """A function that opens a world in a database of this test's own."""

    @contextmanager
    def opened(plot: Plot) -> Iterator[World]:
        with open_world(database_dsn, "ninelives_explore", plot) as world:
            yield world

    return opened


@pytest.fixture
def explored(open_explored: OpenWorld) -> Iterator[World]:
    """A world with the store as it is."""
    with open_explored(Plot()) as world:
        yield world
