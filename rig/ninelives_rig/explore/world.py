"""The schema of an exploration: the states as rows kept aside, and the connections of the operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from ninelives import queries
from ninelives.migrate import migrate
from ninelives.store.control import Control
from ninelives_rig.explore import operations
from ninelives_rig.explore.actor import GATED, Actor, Hold, Shared
from ninelives_rig.explore.backend import GATE, Backend, Monitor
from ninelives_rig.explore.picture import TABLES, Picture, picture_query, take
from ninelives_rig.explore.stepping import SteppedLoop
from ninelives_rig.sabotage.planting import Plot, SqlEdit

SESSIONS: Mapping[str, int] = {"M": operations.HOLDER_SESSION, "A": 11, "B": 12, "C": 13}
"""The sessions of the holder's node and of the operations' own ones, by letter."""

_ALIVE = "where session_id = $1 and dead_at is null and expires_at > clock_timestamp()"
_GATE_EDIT = SqlEdit(
    GATED.decode(), _ALIVE, f"{_ALIVE}\n       and pg_advisory_xact_lock_shared({GATE}, pg_backend_pid()) is not null"
)
_VACUUM_EVERY = 250


@dataclass(frozen=True, slots=True)
class Template:
    """A state's rows, as the statement that puts them back, and the lease that its holder knows of."""

    restore: bytes
    hold: Hold | None
    picture: Picture


class World:
    """One schema on one server, with a connection for each operation and one that looks on."""

    def __init__(self, dsn: str, schema: str, statements: Mapping[str, str]) -> None:
        self.dsn = dsn
        self._schema = queries.quote_identifier(schema)
        self._statements = statements
        self.monitor = Monitor(dsn)
        self.loop = SteppedLoop()
        self.plan_id = 0
        self._query = picture_query(self._schema)
        self._backends: dict[str, Backend] = {}
        self.templates: dict[str, Template] = {}
        self._restored = 0

    def close(self) -> None:
        """Close every connection."""
        for backend in self._backends.values():
            backend.close()
        self.monitor.connection.close()
        self.loop.close()

    def actor(self, letter: str, shared: Shared, hold: Hold | None) -> Actor:
        """Make the actor of an operation."""
        if letter not in self._backends:
            self._backends[letter] = Backend(self.dsn, self.monitor, self._statements)
        return Actor(
            letter,
            self._backends[letter],
            self.monitor,
            self.loop,
            shared,
            session=SESSIONS[letter],
            plan_id=self.plan_id,
            hold=hold,
        )

    def picture(self, by: str = "", acting: int = 0) -> Picture:
        """Read what is committed of the instance."""
        return take(self.monitor, self._query, by, acting)

    def empty(self) -> None:
        """Delete everything but the plan, and open the sessions."""
        self.monitor.connection.execute(self._emptying().encode())
        for session in SESSIONS.values():
            self.monitor.connection.execute(
                f"insert into {self._schema}.node_session (session_id, node_name, server_start, opened_at, expires_at)"
                " values (%s, 'explored', pg_postmaster_start_time(), now(), now() + interval '1 day')".encode(),
                [session],
            )

    def keep(self, name: str, hold: Hold | None) -> Template:
        """Keep the rows that are there as the state of this name."""
        parts = [self._emptying()]
        for table in TABLES:
            aside = queries.quote_identifier(f"{name} {table}")
            place = f"{self._schema}.{aside}"
            self.monitor.connection.execute(
                f"create unlogged table {place} as table {self._schema}.{table}".encode()
            )
            found = self.monitor.connection.execute(f"select count(*) from {place}".encode()).fetchone()
            if found != (0,):
                parts.append(f"insert into {self._schema}.{table} overriding system value table {place}")
        restore = f"begin; {'; '.join(parts)}; commit".encode()
        self.templates[name] = Template(restore, hold, self.picture())
        return self.templates[name]

    def restore(self, template: Template) -> None:
        """Put a state's rows back; now and then what was deleted is swept away."""
        self._restored += 1
        if self._restored % _VACUUM_EVERY == 0:
            for table in TABLES:
                self.monitor.connection.execute(f"vacuum {self._schema}.{table}".encode())
        self.monitor.connection.execute(template.restore)

    def _emptying(self) -> str:
        return "; ".join(f"delete from {self._schema}.{table}" for table in TABLES)


@contextmanager
def open_world(dsn: str, schema: str, plot: Plot) -> Iterator[World]:
    """Make the schema with the edited statements of ``plot``, and drop it at the end."""
    plot.add(_GATE_EDIT)
    migrate(dsn, schema)
    world = World(dsn, schema, queries.load(schema, plot.blocks))
    try:
        _register(world)
        yield world
    finally:
        world.close()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"drop schema {queries.quote_identifier(schema)} cascade".encode())


def _register(world: World) -> None:
    async def register(actor: Actor) -> None:
        control: Control = actor.control
        world.plan_id = await control.register(operations.FLOW, operations.VERSION, "explored", b"{}")

    actor = world.actor("M", Shared(), None)
    actor.begin(register)
    world.loop.settle()
    while not actor.done:
        actor.move()
    if actor.failure is not None:
        raise actor.failure
