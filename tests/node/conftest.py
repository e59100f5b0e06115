"""The same empty store for the tests of the node."""

from __future__ import annotations

from tests.store.conftest import empty_store, migrated_dsn, store_dsn

__all__ = ["empty_store", "migrated_dsn", "store_dsn"]
