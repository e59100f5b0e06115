"""What an activation needs of the node that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ninelives.settings import Settings
from ninelives.store.control import Control
from ninelives.store.rows import Row
from ninelives.transactions import Transactions

if TYPE_CHECKING:
    from ninelives.activation import Activation


class Host(Protocol):
    """A node, as its activations see it."""

    settings: Settings
    control: Control
    transactions: Transactions

    @property
    def session_id(self) -> int:
        """The present session; another one than at the claim means that the lease is gone."""

    @property
    def leaving(self) -> bool:
        """Whether the node is giving its leases back."""

    def clock_us(self) -> int:
        """The database's clock."""

    def submit(self, row: Row) -> None:
        """Queue a row for the instance's lane."""

    def progressed(self, activation: Activation) -> None:
        """Take note that a commit of this activation went in."""
