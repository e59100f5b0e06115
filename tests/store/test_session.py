"""Sessions: kept by one heartbeat, seen dead through their lock or their expiry, never revived."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.store.doors import sql, value

from ninelives import Settings, StoreUnavailable, queries
from ninelives.session import Session, application_name
from ninelives.watch import Watch

pytestmark = pytest.mark.postgres

QUERIES = queries.load("ninelives")
BOUND_S = 15.0


def until(what: str, fact: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND_S
    while not fact():
        assert time.monotonic() < end, f"not within {BOUND_S} s: {what}"
        time.sleep(0.01)


@contextmanager
def session(dsn: str, **settings: Any) -> Iterator[tuple[Session, threading.Event]]:
    """An open session, and the event that tells its loss."""
    lost = threading.Event()
    made = Session(dsn, QUERIES, "test", Settings(**settings), lambda _: lost.set())
    made.open()
    try:
        yield made, lost
    finally:
        made.close()


@contextmanager
def watch(dsn: str, session_id: int = 0, ttl_s: float = 30.0) -> Iterator[list[int]]:
    """A watch, and the list of the sessions that it declared dead."""
    dead: list[int] = []
    made = Watch(dsn, QUERIES, Settings(ttl_s=ttl_s, look_s=0.02), lambda: session_id, "nobody", dead.append)
    made.open()
    try:
        yield dead
    finally:
        made.close()


def insert(dsn: str, session_id: int, expires: str, server_start: str = "pg_postmaster_start_time()") -> None:
    sql(
        dsn,
        "insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at)"
        f" values ({session_id}, 'x', {server_start}, clock_timestamp(), {expires})".encode(),
    )


def is_dead(dsn: str, session_id: int) -> bool:
    return bool(value(dsn, "select dead_at is not null from ninelives.node_session where session_id = %s", session_id))


def test_a_session_holds_its_lock_renews_itself_and_says_goodbye(store_dsn: str) -> None:
    expiry = "select expires_at from ninelives.node_session"
    with session(store_dsn, ttl_s=0.6) as (made, lost):
        assert value(store_dsn, "select pg_try_advisory_lock(%s)", made.session_id) is False
        first = value(store_dsn, expiry)
        until("two heartbeats", lambda: (value(store_dsn, expiry) - first).total_seconds() > 0.3)
        until("it has outlived its first expiry", lambda: value(store_dsn, "select clock_timestamp()") > first)
        assert not lost.is_set() and not is_dead(store_dsn, made.session_id)
        drift_s = made.clock_us() / 1e6 - value(store_dsn, "select clock_timestamp()").timestamp()
        assert abs(drift_s) < 1.0
    assert is_dead(store_dsn, made.session_id)
    assert value(store_dsn, "select pg_try_advisory_lock(%s)", made.session_id) is True


@pytest.mark.parametrize("column", ["dead_at", "expires_at"])
def test_a_dead_or_expired_session_is_told_by_its_heartbeat_and_never_revives(store_dsn: str, column: str) -> None:
    with session(store_dsn, ttl_s=0.6) as (made, lost):
        past = "clock_timestamp() - interval '1 s'"
        sql(store_dsn, f"update ninelives.node_session set {column} = {past}".encode())
        assert lost.wait(BOUND_S)
        assert made.lost
        gone = "select expires_at < clock_timestamp() or dead_at is not null from ninelives.node_session"
        assert value(store_dsn, gone)


def test_a_session_whose_backend_is_ended_knows_it_at_once(store_dsn: str) -> None:
    with session(store_dsn, ttl_s=3_000.0) as (made, lost):
        sql(
            store_dsn,
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s",
            application_name(made.session_id),
        )
        assert lost.wait(BOUND_S)


def test_a_heartbeat_that_is_held_up_is_tried_again(store_dsn: str) -> None:
    with session(store_dsn, ttl_s=3.0) as (made, lost):
        blocked = "select count(*) from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
        cancel = "select pg_cancel_backend(pid) from pg_stat_activity where application_name = %s"
        name = application_name(made.session_id)
        with psycopg.connect(store_dsn) as holder:
            holder.execute("select from ninelives.node_session for update")
            until("the heartbeat waits", lambda: value(store_dsn, blocked, name) == 1)
            sql(store_dsn, cancel, name)
            until("the next one waits", lambda: value(store_dsn, blocked, name) == 1)
            before = value(store_dsn, "select expires_at from ninelives.node_session")
        expiry = "select expires_at from ninelives.node_session"
        until("it went through", lambda: value(store_dsn, expiry) > before)
        assert not lost.is_set()


def test_a_session_lives_in_a_process_with_more_than_1024_open_files(store_dsn: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip(f"this user may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_100)]
    try:
        expiry = "select expires_at from ninelives.node_session"
        with session(store_dsn, ttl_s=0.6) as (_, lost):
            first = value(store_dsn, expiry)
            until("a heartbeat", lambda: value(store_dsn, expiry) > first)
            assert not lost.is_set()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_sessions_leave_no_file_open(store_dsn: str) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with session(store_dsn):
        pass
    before = open_files()
    for _ in range(5):
        with session(store_dsn, ttl_s=0.6) as (_, lost):
            sql(store_dsn, "update ninelives.node_session set dead_at = clock_timestamp()")
            assert lost.wait(BOUND_S)
    assert open_files() == before


def test_a_session_that_cannot_open_says_so(store_dsn: str) -> None:
    with pytest.raises(StoreUnavailable), session("host=127.0.0.1 port=1 connect_timeout=2"):
        pass


def test_a_watch_declares_dead_whose_lock_is_gone_and_ends_what_it_left_open(store_dsn: str) -> None:
    insert(store_dsn, 11, "clock_timestamp() + interval '1 h'")
    with closing(psycopg.connect(store_dsn, application_name=application_name(11))) as left_open:
        left_open.execute("select from ninelives.node_session for update")
        left_open.rollback()
        left_open.execute("select 1")
        with session(store_dsn) as (alive, lost), watch(store_dsn) as dead:
            until("declared dead", lambda: 11 in dead)
            gone = "select count(*) from pg_stat_activity where application_name = %s"
            until("its backend is ended", lambda: value(store_dsn, gone, application_name(11)) == 0)
            assert not lost.is_set() and not is_dead(store_dsn, alive.session_id)
            assert dead == [11]


def test_a_lock_that_is_held_protects_until_the_expiry(store_dsn: str) -> None:
    """As of a frozen process: its lock is there, its heartbeat is not."""
    insert(store_dsn, 12, "clock_timestamp() + interval '700 ms'")
    with psycopg.connect(store_dsn, autocommit=True) as frozen:
        frozen.execute("select pg_advisory_lock(12)")
        with watch(store_dsn, ttl_s=0.5) as dead:
            until("declared dead", lambda: 12 in dead)
        left = value(store_dsn, "select dead_at >= expires_at from ninelives.node_session where session_id = 12")
        assert left is True


def test_a_session_of_another_run_of_the_server_is_dead_at_once(store_dsn: str) -> None:
    """Its connection ended with that run, and a session ends with its connection: nobody can renew it any more."""
    insert(store_dsn, 13, "clock_timestamp() + interval '1 h'", "pg_postmaster_start_time() - interval '1 h'")
    insert(store_dsn, 14, "clock_timestamp() + interval '1 h'")
    with psycopg.connect(store_dsn, autocommit=True) as other:
        # Locks of the same number say nothing about 13; they keep 14, of this run, alive.
        other.execute("select pg_advisory_lock(13), pg_advisory_lock(14)")
        a_holder_without_session(store_dsn)
        with watch(store_dsn, ttl_s=3_600) as dead:
            until("declared dead, and the look went on to its end", lambda: {13, 77} <= set(dead))
        assert not is_dead(store_dsn, 14)


def a_holder_without_session(dsn: str) -> None:
    """Leave a wake to holder 77, which the end of a look's round adopts as dead."""
    sql(
        dsn,
        "insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, holder)"
        " values (gen_random_uuid(), 1, 1, 0, 77)",
    )


def test_wakes_of_a_holder_without_a_session_become_due(store_dsn: str) -> None:
    a_holder_without_session(store_dsn)
    with watch(store_dsn) as dead:
        until("adopted as dead", lambda: 77 in dead)
    assert is_dead(store_dsn, 77)



def test_a_new_session_is_watched_as_soon_as_the_ring_is_told_of_it(store_dsn: str) -> None:
    """Without being told, the wait for a farther neighbour goes on and the new one is left to the slow look."""
    dead: list[int] = []
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid::bigint = %s"
    with psycopg.connect(store_dsn, autocommit=True) as far, psycopg.connect(store_dsn, autocommit=True) as near:
        far.execute("select pg_advisory_lock(20)")
        insert(store_dsn, 20, "clock_timestamp() + interval '1 hour'")
        made = Watch(store_dsn, QUERIES, Settings(look_s=3600.0), lambda: 1, "nobody", dead.append)
        made.open()
        try:
            until("the watch waits for the only neighbour", lambda: value(store_dsn, waiting, 20) == 1)
            near.execute("select pg_advisory_lock(10)")
            insert(store_dsn, 10, "clock_timestamp() + interval '1 hour'")
            made.ring_changed()
            until("the watch waits for the new neighbour", lambda: value(store_dsn, waiting, 10) == 1)
            near.close()
            until("the new neighbour is declared dead", lambda: dead == [10])
            assert not is_dead(store_dsn, 20)
        finally:
            made.close()
