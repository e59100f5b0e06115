"""Broken promises: what an engine does wrong, each seen by the checker that is there for it."""

from __future__ import annotations

from tests.checkers.cases import FAIL, UNSURE, events, register_one_more, told, unfinish
from tests.checkers.make_bundle import Story, identity
from tests.checkers.stories import (
    at_most_once,
    frozen,
    open_story,
    transactional,
    without_journal,
)

# lost, never_opened, orphan_effects, durable_start


@told("lost.unfinished", FAIL)
def lost_instance(story: Story) -> None:
    unfinish(story, 0)


@told("lost.unfinished convergence.timed_out", UNSURE)
def unfinished_when_time_ran_out(story: Story) -> None:
    unfinish(story, 0)
    story.spec.update(converged=False, progressing=True)


@told("lost.unfinished convergence.stranded", FAIL)
def stranded_instance(story: Story) -> None:
    unfinish(story, 0)
    story.spec.update(converged=False, progressing=False)


@told("never_opened.no_row", FAIL)
def start_that_left_nothing(story: Story) -> None:
    one = register_one_more(story)
    story.event("worker-1.2", "start.invoke", instance_id=one)
    story.event("worker-1.2", "start.info", instance_id=one)


@told("never_opened.no_row durable_start.no_row", FAIL)
def acknowledged_start_that_is_gone(story: Story) -> None:
    one = register_one_more(story)
    story.event("worker-1.2", "start.invoke", instance_id=one)
    story.event("worker-1.2", "start.ok", instance_id=one)


@told("tokens.unheld orphan_effects.no_row", FAIL)
def effect_of_nobody(story: Story) -> None:
    story.apply("worker-1.2", 0, 1)
    story.witness[-1].update(instance_id=identity(77), key=f"{identity(77)}//1")


# acknowledged


@told("tokens.unheld lost.unfinished acknowledged.end_missing", FAIL)
def acknowledged_end_that_is_gone(story: Story) -> None:
    unfinish(story, 0)
    story.event("worker-1.2", "finished", instance_id=identity(0), token=1, state="Completed")


def _open_after_commit() -> Story:
    story = Story("after-commit", position="after-commit", flows=1)
    open_story(story)
    story.claim("worker-1", 0)
    return story


@told("acknowledged.row_missing", FAIL, _open_after_commit)
def acknowledged_before_the_server_did(story: Story) -> None:
    story.apply("worker-1", 0, 1)
    story.kill("worker-1", 0, 1)
    story.claim("recovery-1", 0)
    story.run("recovery-1", 0)
    story.close()


@told("acknowledged.row_missing", FAIL, _open_after_commit)
def next_body_before_the_commit(story: Story) -> None:
    story.apply("worker-1", 0, 1)
    story.kill("worker-1", 0, 2, boundary="body.entered")
    story.claim("recovery-1", 0)
    story.run("recovery-1", 0)
    story.close()


@told("acknowledged.effect_before_commit", FAIL, _open_after_commit)
def next_effect_before_the_commit(story: Story) -> None:
    story.apply("worker-1", 0, 1)
    story.apply("worker-1", 0, 2)
    story.kill("worker-1", 0, 2, boundary="body.returned")
    story.claim("recovery-1", 0)
    story.run("recovery-1", 0)
    story.close()


@told("acknowledged.intent_missing", FAIL, at_most_once)
def acknowledged_intent_that_is_gone(story: Story) -> None:
    story.receipts[0].update(boundary="intent.committed", attempt=7)
    story.schedule[0].update(boundary="intent.committed")


# terminal


@told("terminal.unexpected", FAIL)
def ended_as_failed(story: Story) -> None:
    story.row("instance", 0)["state"] = "Failed"
    events(story, "finished", 0)[0]["state"] = "Failed"


@told("terminal.disagree", FAIL)
def told_as_another_end(story: Story) -> None:
    events(story, "finished", 0)[0]["state"] = "Failed"


@told("terminal.unseen", UNSURE)
def end_that_nobody_told(story: Story) -> None:
    story.history.remove(events(story, "finished", 5)[0])


@told("terminal.wake_left", FAIL)
def wake_of_an_ended_instance(story: Story) -> None:
    story.tables["wake"].append({"instance_id": identity(0), "seq": 1, "seen_seq": 1, "run_at": "2026-01-01"})


@told("lost.unfinished terminal.wake_missing", FAIL)
def live_instance_without_a_wake(story: Story) -> None:
    unfinish(story, 0)
    story.tables["wake"].clear()


@told("lost.unfinished terminal.unwakeable", FAIL)
def nobody_will_look_again(story: Story) -> None:
    unfinish(story, 0, seq=2, seen_seq=1, holder=None)
    story.row("instance", 0)["state"] = "Suspended"


# duplicates, arithmetic, in_doubt


@told("duplicates.against_guarantee", FAIL)
def committed_step_done_again(story: Story) -> None:
    story.apply("worker-1.2", 4, 1)


@told("duplicates.against_guarantee", FAIL)
def again_under_the_same_token(story: Story) -> None:
    story.apply("worker-1.2", 5, 2)


@told("duplicates.against_guarantee in_doubt.no_intent", FAIL, at_most_once)
def at_most_once_twice(story: Story) -> None:
    story.apply("recovery-1", 0, 1)
    story.spec["expect"] = {}


@told("duplicates.against_guarantee", FAIL, transactional)
def ledger_row_of_a_rolled_back_transaction(story: Story) -> None:
    story.apply("worker-1", 1, 1, token=1)
    story.tables["ledger"][-1]["t_us"] = story.receipts[0]["t"] // 1000 - 1


@told("duplicates.against_guarantee", FAIL, without_journal)
def without_tokens_after_the_next_step(story: Story) -> None:
    story.apply("recovery-1", 1, 1)


@told("duplicates.between_live_workers", FAIL, without_journal)
def without_tokens_by_two_that_live(story: Story) -> None:
    story.node("worker-9", "worker")
    story.apply("worker-9", 1, 3)
    story.reap("worker-9")
    events(story, "process.exited")[-2]["t"] = story.now()


@told("tokens.unheld duplicates.between_live_workers fencing.stale_effect", FAIL)
def effect_of_a_zombie(story: Story) -> None:
    story.apply("worker-1.2", 2, 1, token=1)


@told("arithmetic.no_effect arithmetic.open", FAIL)
def committed_step_without_its_effect(story: Story) -> None:
    last = max(index for index, line in enumerate(story.witness) if line["process"] == "worker-1.2")
    story.witness.pop(last)


@told("arithmetic.step_missing sequences.counter", FAIL)
def completed_without_its_last_step(story: Story) -> None:
    story.tables["step"] = [
        row for row in story.tables["step"] if (row["instance_id"], row["step_id"]) != (identity(0), 3)
    ]
    story.witness[:] = [
        {**line, "seq": line["seq"] - (line["process"] == "worker-1" and line["seq"] > 3)}
        for line in story.witness
        if (line["instance_id"], line["step_id"]) != (identity(0), 3)
    ]


@told("arithmetic.step_missing arithmetic.open", FAIL, without_journal)
def completed_without_an_effect(story: Story) -> None:
    story.witness.pop()


@told("in_doubt.no_intent", FAIL, at_most_once)
def effect_without_an_intent(story: Story) -> None:
    story.tables["intent"].pop()


@told("in_doubt.no_intent", FAIL, at_most_once)
def effect_under_the_intent_of_another(story: Story) -> None:
    story.tables["intent"][-1]["token"] = 1


@told("in_doubt.voided_effect duplicates.against_guarantee", FAIL, at_most_once)
def voided_effect_that_landed(story: Story) -> None:
    story.sink.insert(1, {**story.sink[0], "instance_id": identity(1), "key": f"{identity(1)}//1"})
    story.spec["expect"] = {}


@told("in_doubt.no_row", FAIL, at_most_once)
def settled_intent_without_a_row(story: Story) -> None:
    story.intend(0, 3, attempt=2)["outcome"] = "committed"


@told("in_doubt.open", FAIL, at_most_once)
def doubt_that_nobody_settled(story: Story) -> None:
    story.intend(0, 3, attempt=2)


# fencing, tokens, sequences


@told("fencing.zombie_went_on acknowledged.effect_before_commit", FAIL, frozen)
def zombie_that_went_on(story: Story) -> None:
    story.apply("worker-1", 0, 3, token=1)


@told("fencing.stale_row", FAIL)
def row_behind_a_greater_token(story: Story) -> None:
    first, second = [row for row in story.tables["step"] if row["instance_id"] == identity(3)][:2]
    first["sequence"], second["sequence"] = 2, 1


@told("tokens.unheld fencing.stale_finish", FAIL)
def end_under_a_stale_token(story: Story) -> None:
    events(story, "finished", 3)[0]["token"] = 1


@told("tokens.unheld fencing.stale_finish fencing.two_ends", FAIL)
def end_by_two(story: Story) -> None:
    story.event("worker-1.2", "finished", instance_id=identity(3), token=1, state="Completed")


@told("tokens.takeover tokens.not_rising", FAIL)
def token_kept_on_takeover(story: Story) -> None:
    story.event("worker-1.2", "claimed", instance_id=identity(0), token=1, takeover=True)


@told("tokens.lease_missing", FAIL)
def lease_row_deleted(story: Story) -> None:
    story.tables["lease"].pop(0)


@told("tokens.lease_behind tokens.fence_differs", FAIL)
def lease_below_a_used_token(story: Story) -> None:
    story.row("lease", 3)["token"] = 1


@told("tokens.fence_differs fencing.stale_finish", FAIL)
def fence_not_raised_at_takeover(story: Story) -> None:
    story.row("instance", 3)["fence"] = 1


@told("tokens.unheld tokens.claim_unseen", UNSURE)
def claim_that_nobody_told(story: Story) -> None:
    story.history.remove(events(story, "claimed", 0)[0])


@told("sequences.not_dense", FAIL)
def gap_in_the_journal(story: Story) -> None:
    story.tables["step"][2]["sequence"] = 9


@told("sequences.row_twice", FAIL)
def refused_duplicate_accepted(story: Story) -> None:
    failed = next(row for row in story.tables["step"] if row["outcome"] == "Failure")
    story.tables["step"].append({**failed, "sequence": story.row("instance", 5)["next_sequence"]})
    story.row("instance", 5)["next_sequence"] += 1


@told("sequences.step_twice", FAIL)
def step_completed_by_two_attempts(story: Story) -> None:
    story.apply("worker-1.2", 5, 3, attempt=2)
    story.commit(5, 3, attempt=2)


@told("sequences.counter", FAIL)
def counter_that_ran_ahead(story: Story) -> None:
    story.row("instance", 0)["next_sequence"] = 9


# expectations


@told("declaration.kills expectations.kills", UNSURE)
def other_kills_than_promised(story: Story) -> None:
    story.spec["expect"] = {"kills": 3}


@told("expectations.different", FAIL)
def other_duplicates_than_promised(story: Story) -> None:
    story.spec["expect"] = {"kills": 2, "duplicates_documented": 3}


@told("declaration.kills expectations.different expectations.kills", UNSURE)
def other_duplicates_and_other_kills(story: Story) -> None:
    story.spec["expect"] = {"kills": 3, "duplicates_documented": 3}


@told("expectations.unknown", UNSURE)
def promise_that_nobody_counts(story: Story) -> None:
    story.spec["expect"] = {"luck": 1}
