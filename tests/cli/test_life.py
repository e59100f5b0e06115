"""An instance's life through the command line: started, shown, signalled, paused, in doubt, taken over."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.cli.command import facts, look, ninelives, node, ok, refused, started, until, waited

from ninelives import connect, migrate

pytestmark = pytest.mark.postgres


@pytest.fixture
def dsn(database_dsn: str) -> str:
    """A database with the schema in it."""
    migrate(database_dsn)
    return database_dsn


def test_a_flow_is_started_run_listed_and_shown(dsn: str) -> None:
    with node("plain", "waiting", dsn=dsn, options=("--name", "till-1")) as running:
        assert running.ready["flows"] == ["shop.plain 1.0.0", "shop.waiting 2.1.0"]
        ended = ninelives(
            "start", "shop.plain", "--input", "[1, 2, 3]", "--wait", "--key", "order-1", "--json", dsn=dsn
        )
        told = json.loads(ended.stdout)
        assert (ended.returncode, told["state"], told["result"]) == (0, "Completed", 6)
        code, lines, err = running.end(signal.SIGTERM)
    assert (code, lines) == (0, [{"event": "stopped", "node": "till-1", "finished": 1, "takeovers": 0}])
    assert "till-1 has left" in err

    shown = facts("show", "--key", "order-1", dsn=dsn)
    assert shown["instance_id"] == told["instance_id"]
    assert (shown["input"], shown["result"], shown["error"], shown["next"]) == ([1, 2, 3], 6, None, None)
    assert shown["steps"] == [
        {"step_id": 1, "name": "add", "kind": "step", "effect": "idempotent", "done": True},
    ]
    (attempt,) = shown["attempts"]
    assert [attempt[key] for key in ("step", "attempt", "outcome", "token", "result")] == ["add", 1, "Success", 1, 6]
    assert attempt["committed_at"].endswith("Z")
    assert (shown["lease"]["token"], shown["lease"]["holder"], shown["wake"]) == (1, None, None)

    text = ok("show", told["instance_id"], dsn=dsn)
    for part in ("shop.plain 1.0.0", "Completed", "1 of 1 steps: add", "token 1, fence 1, held by nobody"):
        assert part in text
    listed = facts("list", "--flow", "shop.plain", dsn=dsn)
    assert listed["counts"] == {"Completed": 1}
    assert [line["instance_id"] for line in listed["instances"]] == [told["instance_id"]]
    assert told["instance_id"] in ok("list", "--state", "completed", dsn=dsn)


async def _look_from_a_program(dsn: str, instance_id: str) -> tuple[Any, Any]:
    async with connect(dsn) as client:
        return await client.show(UUID(instance_id)), await client.list(state="Pending", limit=5)


def test_a_program_sees_the_same_facts_as_the_command(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        pass
    instance_id = started("shop.waiting", [1], dsn=dsn)
    shown, (line,) = asyncio.run(_look_from_a_program(dsn, instance_id))
    told = facts("show", instance_id, dsn=dsn)
    assert {**shown, "read_at": None} == {**told, "read_at": None}
    assert (line["instance_id"], shown["next"]["why"], shown["next"]["attempt"]) == (instance_id, "due", 1)


def test_a_repeated_start_is_the_same_instance_and_another_input_a_conflict(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        one = ok("start", "shop.waiting", "--input", "[1]", "--key", "a", dsn=dsn)
        assert ok("start", "shop.waiting", "--input", "[1]", "--id", one, dsn=dsn) == one
        assert "already exists" in refused(1, "start", "shop.waiting", "--input", "[2]", "--key", "a", dsn=dsn)
        assert "no node has registered" in refused(1, "start", "shop.gone", dsn=dsn)
        assert "shop.waiting 9.9" in refused(1, "start", "shop.waiting", "--version", "9.9", dsn=dsn)


def test_a_failed_flow_gives_exit_code_1_and_its_error(dsn: str) -> None:
    with node("failing", dsn=dsn):
        assert "out of stock \\x1b" in refused(1, "start", "shop.failing", "--input", "[1]", "--wait", dsn=dsn)
        ended = ninelives("start", "shop.failing", "--input", "[2]", "--wait", "--json", dsn=dsn)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["state"], told["error"]["step"]) == (1, "Failed", "refuse")
    shown = look(told["instance_id"], dsn=dsn)
    assert shown["attempts"][-1]["error"]["message"].startswith("out of stock")
    # What a body says is shown, never obeyed by the terminal.
    text = ok("show", told["instance_id"], dsn=dsn)
    assert "out of stock \\x1b[31m" in text
    assert "\x1b" not in text


def test_a_wait_shows_what_it_waits_for_and_takes_its_signal_once(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        instance_id = started("shop.waiting", [1], dsn=dsn)
        shown = until(instance_id, "signal", dsn=dsn)
        assert (shown["state"], shown["next"]["name"], shown["steps_done"]) == ("Suspended", "approved", 1)
        assert "waits for the signal 'approved'" in ok("show", instance_id, dsn=dsn)
        send = ("signal", instance_id, "approved", "--payload", '{"by": "Ada"}', "--signal-id", "s1")
        assert ok(*send, dsn=dsn) == "accepted"
        shown = until(instance_id, "Completed", dsn=dsn)
        assert (shown["result"], shown["signals_consumed"], shown["signals_waiting"]) == ({"by": "Ada"}, 1, [])
        assert "already ended" in refused(1, "signal", instance_id, "approved", dsn=dsn)


def test_a_signal_before_the_start_is_put_aside_and_repeats_are_harmless(dsn: str) -> None:
    instance_id = "00000000-0000-4000-8000-000000000001"
    send = ("signal", instance_id, "approved", "--payload", "7", "--signal-id", "s1")
    assert facts(*send, dsn=dsn)["outcome"] == "buffered"
    assert facts(*send, dsn=dsn)["outcome"] == "duplicate"
    with node("waiting", dsn=dsn):
        started = ("start", "shop.waiting", "--input", "[1]", "--id", instance_id, "--wait")
        assert ok(*started, dsn=dsn) == "7"


def test_a_paused_instance_says_so_and_goes_on_after_resume(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        instance_id = started("shop.waiting", [1], dsn=dsn)
        until(instance_id, "signal", dsn=dsn)
        assert facts("pause", instance_id, dsn=dsn) == {"instance_id": instance_id, "paused": True}
        ok("signal", instance_id, "approved", dsn=dsn)
        shown = look(instance_id, dsn=dsn)
        assert (shown["paused"], shown["next"]["why"]) == (True, "paused")
        assert [line["name"] for line in shown["signals_waiting"]] == ["approved"]
        assert "paused" in ok("list", dsn=dsn)
        ok("resume", instance_id, dsn=dsn)
        until(instance_id, "Completed", dsn=dsn)
        assert "already ended" in refused(1, "pause", instance_id, dsn=dsn)


def test_a_doubt_is_listed_explained_and_run_again_on_an_operators_word(dsn: str) -> None:
    with node("doubtful", "waiting", dsn=dsn):
        other = started("shop.waiting", [1], dsn=dsn)
        instance_id = started("shop.doubtful", None, dsn=dsn)
        shown = until(instance_id, "in_doubt", dsn=dsn)
        (intent,) = shown["intents"]
        assert (intent["in_doubt"], intent["outcome"], intent["step"]) == (True, None, "pay")
        text = ok("show", instance_id, dsn=dsn)
        assert "IN DOUBT" in text
        assert f"ninelives rerun {instance_id} pay --yes" in text
        assert [line["instance_id"] for line in facts("list", "--in-doubt", dsn=dsn)["instances"]] == [instance_id]

        assert "add --yes" in refused(2, "rerun", instance_id, "pay", dsn=dsn)
        assert "in doubt: 'pay'" in refused(1, "rerun", instance_id, "refund", "--yes", dsn=dsn)
        assert "in doubt: nothing" in refused(1, "rerun", other, "add", "--yes", dsn=dsn)
        told = facts("rerun", instance_id, "pay", "--yes", dsn=dsn)
        assert told["voided_key"] == intent["idempotency_key"]
        shown = until(instance_id, "Completed", dsn=dsn)
        assert shown["result"] == f"{intent['idempotency_key']}/void1"
        assert (shown["in_doubt"], [line["outcome"] for line in shown["intents"]]) == (0, ["voided", "committed"])
        assert facts("list", "--in-doubt", dsn=dsn)["instances"] == []


def test_a_killed_holder_is_seen_as_dead_and_the_next_node_takes_over(dsn: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with node("slow", dsn=dsn, options=("--name", "first", "--ttl-s", "300")) as first:
        instance_id = started("shop.slow", str(gate), dsn=dsn)
        shown = until(instance_id, "running", dsn=dsn)
        assert (shown["lease"]["node"], shown["lease"]["session"]) == ("first", "alive")
        assert shown["lease"]["holder"] == first.ready["session_id"]
        first.end(signal.SIGKILL)
    # Nobody has declared it dead, and its TTL is five minutes away: the lock alone tells.
    shown = until(instance_id, "takeover", dsn=dsn)
    assert shown["lease"]["session"] == "gone"
    assert "its lock is gone" in ok("show", instance_id, dsn=dsn)
    gate.touch()
    with node("slow", dsn=dsn) as second:
        shown = until(instance_id, "Completed", dsn=dsn)
        assert (shown["lease"]["token"], shown["result"], shown["steps_done"]) == (2, 3, 2)
        assert {line["token"] for line in shown["attempts"]} == {2}
        _, lines, _ = second.end(signal.SIGINT)
    assert lines[-1]["takeovers"] == 1


def test_a_node_that_is_told_to_stop_lets_its_step_end_and_leaves_with_0(dsn: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with node("slow", dsn=dsn) as running:
        instance_id = started("shop.slow", str(gate), dsn=dsn)
        until(instance_id, "running", dsn=dsn)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.stderr is not None
        assert any("leaving: 1 instances" in line for line in iter(running.process.stderr.readline, ""))
        gate.touch()
        out, _ = running.process.communicate(timeout=60)
    assert (running.process.returncode, json.loads(out)["event"]) == (0, "stopped")
    shown = look(instance_id, dsn=dsn)
    assert (shown["steps_done"], shown["lease"]["holder"], shown["next"]["why"]) == (1, None, "due")
    assert "no node is running" in shown["next"]["text"]


def test_a_second_interrupt_ends_a_node_at_once_and_its_work_is_due(dsn: str, tmp_path: Path) -> None:
    with node("slow", dsn=dsn) as running:
        instance_id = started("shop.slow", str(tmp_path / "never"), dsn=dsn)
        until(instance_id, "running", dsn=dsn)
        running.process.send_signal(signal.SIGINT)
        assert running.process.stderr is not None
        assert any("leaving: 1 instances" in line for line in iter(running.process.stderr.readline, ""))
        code, lines, err = running.end(signal.SIGINT)
    assert (code, lines, err) == (-signal.SIGINT, [], "")
    assert look(instance_id, dsn=dsn)["next"]["why"] in ("takeover", "due")


def test_a_later_attempt_is_told_with_its_time(dsn: str) -> None:
    with node("retried", dsn=dsn):
        instance_id = started("shop.retried", None, dsn=dsn)
        shown = until(instance_id, "later", dsn=dsn)
    assert (shown["next"]["attempt"], shown["state"]) == (2, "Suspended")
    assert "due in" in ok("show", instance_id, dsn=dsn)


def test_a_wait_that_takes_too_long_ends_and_the_instance_goes_on(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        done = ninelives("start", "shop.waiting", "--input", "[1]", "--wait", "--timeout-s", "0.2", "--json", dsn=dsn)
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "instance.running")
        (line,) = facts("list", dsn=dsn)["instances"]
        assert f"started {line['instance_id']}" in done.stderr
        until(line["instance_id"], "signal", dsn=dsn)


def test_a_wait_says_once_what_holds_the_instance_up(dsn: str) -> None:
    with node("waiting", dsn=dsn), waited("shop.waiting", [1], dsn=dsn) as (instance_id, process):
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("waiting: step 2 'approved': waits for the signal 'approved'; ")
        assert f"`ninelives signal {instance_id} approved`" in line
        ok("pause", instance_id, dsn=dsn)
        line = process.stderr.readline()
        assert line.startswith("waiting: paused; ")
        assert f"`ninelives resume {instance_id}`" in line
        ok("signal", instance_id, "approved", "--payload", "7", dsn=dsn)
        ok("resume", instance_id, dsn=dsn)
        out, rest = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, "7")
        assert "paused" not in rest


def test_a_wait_tells_a_doubt(dsn: str) -> None:
    with node("doubtful", dsn=dsn), waited("shop.doubtful", None, dsn=dsn) as (instance_id, process):
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("waiting: step 1 'pay': in doubt")
        assert f"`ninelives show {instance_id}`" in line
        ok("rerun", instance_id, "pay", "--yes", dsn=dsn)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, "/void1" in out) == (0, True)


def test_the_counts_of_a_list_are_of_what_it_lists(dsn: str) -> None:
    with node("plain", "waiting", "doubtful", dsn=dsn):
        for flow_id, state in (("shop.plain", "Completed"), ("shop.waiting", "signal"), ("shop.doubtful", "in_doubt")):
            until(started(flow_id, [1], dsn=dsn), state, dsn=dsn)
    assert facts("list", dsn=dsn)["counts"] == {"Completed": 1, "Suspended": 2}
    assert facts("list", "--state", "Completed", dsn=dsn)["counts"] == {"Completed": 1}
    assert facts("list", "--state", "Failed", dsn=dsn)["counts"] == {}
    assert facts("list", "--in-doubt", dsn=dsn)["counts"] == {"Suspended": 1}
    both = ("list", "--state", "suspended", "--flow", "shop.waiting")
    assert facts(*both, dsn=dsn)["counts"] == {"Suspended": 1}


def test_the_list_is_newest_first_and_says_when_there_is_more(dsn: str) -> None:
    with node("waiting", dsn=dsn):
        ids = [started("shop.waiting", [n], dsn=dsn) for n in range(3)]
        listed = facts("list", "--limit", "2", dsn=dsn)
        assert [line["instance_id"] for line in listed["instances"]] == [ids[2], ids[1]]
        assert listed["more"]
        assert not facts("list", "--limit", "3", dsn=dsn)["more"]
        assert facts("list", "--flow", "shop.other", dsn=dsn)["counts"] == {}
