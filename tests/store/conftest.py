"""A migrated database for every test of the store."""

from __future__ import annotations

import pytest

from ninelives.migrate import migrate


@pytest.fixture
def store_dsn(database_dsn: str) -> str:
    """The DSN of a fresh database with the schema `ninelives`."""
    migrate(database_dsn)
    return database_dsn
