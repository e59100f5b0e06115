"""Broken promises to clients and between nodes: signals, pauses, versions, sessions, planned faults."""

from __future__ import annotations

from tests.checkers.cases import FAIL, UNSURE, events, told
from tests.checkers.make_bundle import Story, identity
from tests.checkers.operated_stories import buried, operated
from tests.checkers.stories import frozen


@told("signals.gone signals.row_without_signal", FAIL, operated)
def acknowledged_signal_that_is_gone(story: Story) -> None:
    story.tables["signal"].pop()


@told("signals.stranger signals.two_in_one", FAIL, operated)
def signal_taken_twice_under_another_id(story: Story) -> None:
    story.tables["signal"].append({**story.tables["signal"][0], "signal_id": "s again"})


@told("signals.row_without_signal", FAIL, operated)
def wait_that_ended_by_itself(story: Story) -> None:
    story.tables["signal"][0]["consumed_step_id"] = None


@told("paused.started", FAIL, operated)
def went_on_in_spite_of_the_pause(story: Story) -> None:
    pause, resume = events(story, "pause.ok", 0)[0], events(story, "resume.invoke", 0)[0]
    claim = events(story, "claimed", 1)[-1]
    events(story, "pause.invoke", 0)[0].update(instance_id=identity(1))
    pause.update(instance_id=identity(1), t=claim["t"])
    resume.update(instance_id=identity(1), t=story.now())


@told("paused.none", UNSURE, operated)
def pause_that_never_came(story: Story) -> None:
    story.history.remove(events(story, "pause.ok", 0)[0])


@told("versions.other_version", FAIL, buried)
def taken_by_a_node_that_does_not_carry_it(story: Story) -> None:
    story.tables["step"][-1]["capability_version"] = "2.0.0"


@told("sessions.revived", FAIL, buried)
def heartbeat_of_the_dead(story: Story) -> None:
    story.tables["session"][0]["expires_at"] = "2026-01-01 00:00:32+00"


@told("disturbances.missing", UNSURE, buried)
def fault_that_never_happened(story: Story) -> None:
    story.spec["disturbances"] = {"bury": 2}


@told("disturbances.unhealed", UNSURE, frozen)
def fault_that_was_never_undone(story: Story) -> None:
    story.history.remove(events(story, "process.thawed")[0])


@told("disturbances.unproved", UNSURE, buried)
def fault_that_nothing_proves(story: Story) -> None:
    del events(story, "process.buried")[0]["proof"]


@told("disturbances.unproved", UNSURE, frozen)
def fault_whose_proof_shows_another_thing(story: Story) -> None:
    events(story, "process.thawed")[0]["proof"] = "was in state S"


@told("leftovers.deadlocks", FAIL)
def deadlock_that_the_server_had_to_end(story: Story) -> None:
    story.spec["deadlocks"] = 2


@told("leftovers.idle_in_transaction", FAIL)
def transaction_that_nobody_ended(story: Story) -> None:
    story.spec["idle_in_transaction"] = 1


@told("fencing.zombie_went_on acknowledged.effect_before_commit", FAIL, buried)
def buried_node_that_went_on_after_one_refusal(story: Story) -> None:
    late = next(line for line in story.witness if line["step_id"] == 2 and line["token"] == 1)
    late.update(step_id=3, key=f"{identity(0)}//3")
