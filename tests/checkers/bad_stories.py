"""Bad histories: each spoils a good story in one way, and names every finding that this must lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checkers.make_bundle import Row, Story, identity
from tests.checkers.stories import at_most_once, frozen, idempotent, open_story, transactional, without_journal

from ninelives_rig.evidence.seal import seal
from ninelives_rig.verdict import Status

FAIL, UNSURE, BROKEN = Status.FAIL, Status.INCONCLUSIVE, Status.BROKEN


@dataclass(frozen=True)
class Case:
    """``tell`` is the story; ``spoil`` changes the files written. ``findings`` is all that must be found."""

    title: str
    findings: frozenset[str]
    status: Status
    tell: Callable[[], Story]
    spoil: Callable[[Path], None] | None = None


CASES: list[Case] = []


def told(findings: str, status: Status, base: Callable[[], Story] = idempotent) -> Callable[..., None]:
    """Register a change of a good story before it is written."""

    def register(change: Callable[[Story], object]) -> None:
        def tell() -> Story:
            story = base()
            change(story)
            return story

        CASES.append(Case(change.__name__, frozenset(findings.split()), status, tell))

    return register


def spoilt(findings: str, status: Status, base: Callable[[], Story] = idempotent) -> Callable[..., None]:
    """Register a change of the files of a good story."""

    def register(change: Callable[[Path], None]) -> None:
        CASES.append(Case(change.__name__, frozenset(findings.split()), status, base, change))

    return register


def _events(story: Story, event: str, index: int | None = None) -> list[Row]:
    return [
        row
        for row in story.history
        if row["event"] == event and (index is None or row["instance_id"] == identity(index))
    ]


def _unfinish(story: Story, index: int, **wake: object) -> None:
    """Make an instance live again: no end, no acknowledged end, a wake of its own."""
    story.row("instance", index)["state"] = "Running"
    story.history.remove(_events(story, "finished", index)[0])
    row = {"instance_id": identity(index), "seq": 1, "seen_seq": 0, "run_at": None, "holder": 77}
    story.tables["wake"].append({**row, **wake})


def _register_one_more(story: Story) -> str:
    index = len(story.instances)
    story.instances.append({"index": index, "instance_id": identity(index), "started_by": "worker"})
    story.spec["flows"] += 1
    return identity(index)


# evidence


@spoilt("evidence.damaged", UNSURE)
def not_json_in_the_middle(root: Path) -> None:
    path = root / "arms/before-commit/history/worker-2.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"t":12,"process"\n' + b"".join(lines[1:]))
    seal(root)


@spoilt("evidence.damaged", UNSURE)
def nan_in_an_event(root: Path) -> None:
    path = root / "arms/before-commit/history/worker-2.jsonl"
    path.write_bytes(path.read_bytes() + b'{"t":NaN,"process":"worker-2","pid":1,"event":"x"}\n')
    seal(root)


@told("evidence.damaged sequences.not_dense arithmetic.step_missing acknowledged.effect_before_commit "
      "sequences.counter", UNSURE)  # fmt: skip
def nan_in_a_table(story: Story) -> None:
    story.row("step", 0)["token"] = "NaN"


@spoilt("evidence.damaged", UNSURE)
def no_wake_table(root: Path) -> None:
    (root / "arms/before-commit/tables/wake.csv").unlink()
    seal(root)


@told("evidence.damaged kills.no_receipt kills.no_receipt_for_exit", UNSURE)
def receipt_without_its_time(story: Story) -> None:
    story.receipts[0]["t"] = None


@told("evidence.empty kills.no_exit terminal.unseen tokens.claim_unseen", UNSURE)
def empty_history(story: Story) -> None:
    story.history.clear()


@told("evidence.empty arithmetic.no_effect arithmetic.open", FAIL)
def empty_witness(story: Story) -> None:
    story.witness.clear()


@told("evidence.witness_gap arithmetic.no_effect arithmetic.open", UNSURE)
def lost_witness_line(story: Story) -> None:
    story.witness.pop(1)


@told("evidence.truncated", UNSURE)
def half_a_line_without_a_kill(story: Story) -> None:
    story.tails["history/coordinator.jsonl"] = b'{"t":17,"proc'


@told("evidence.silent_process", UNSURE)
def node_without_history(story: Story) -> None:
    story.node("worker-9", "worker")
    story.history.pop()
    story.reap("worker-9")


# population


@told("population.size", UNSURE)
def fewer_flows_than_asked_for(story: Story) -> None:
    story.spec["flows"] = 7


@told("population.unregistered population.not_started", UNSURE)
def instance_of_another_run(story: Story) -> None:
    story.instances[5]["instance_id"] = identity(99)


@told("population.not_started", UNSURE)
def nobody_started_it(story: Story) -> None:
    _register_one_more(story)


# kills


def _without_kills() -> Story:
    story = Story(flows=1)
    open_story(story)
    story.claim("worker-1", 0)
    story.run("worker-1", 0)
    return story


@told("kills.none", UNSURE, _without_kills)
def no_kill(story: Story) -> None:
    story.close()


@told("kills.nothing_recovered", UNSURE, _without_kills)
def kill_of_an_idle_node(story: Story) -> None:
    story.kill("recovery-1", None, 0, boundary="session.opened")
    story.close()


@told("kills.underscheduled", UNSURE)
def fewer_kills_than_planned(story: Story) -> None:
    story.spec["kills_planned"] += 1


@told("kills.no_receipt kills.no_receipt_for_exit", UNSURE)
def kill_without_a_receipt(story: Story) -> None:
    story.receipts.pop()


@told("kills.no_exit", UNSURE)
def exit_code_0_instead_of_the_signal(story: Story) -> None:
    _events(story, "process.exited")[0]["exitcode"] = 0


@told("kills.no_exit kills.no_receipt_for_exit", UNSURE)
def another_process_with_the_same_pid(story: Story) -> None:
    story.receipts[0]["start_time"] += 1


@told("kills.misdirected", UNSURE)
def kill_of_another_instance(story: Story) -> None:
    story.schedule[0]["instance_id"] = identity(0)


@told("kills.misdirected", UNSURE)
def kill_at_another_boundary(story: Story) -> None:
    story.schedule[0]["boundary"] = "body.entered"


@told("kills.shared_death", UNSURE)
def two_receipts_for_one_death(story: Story) -> None:
    story.schedule.append({**story.schedule[0], "kill_id": "k0009"})
    story.receipts.append({**story.receipts[0], "kill_id": "k0009"})
    story.spec["kills_planned"] += 1


@told("kills.no_receipt_for_exit", UNSURE)
def death_that_nobody_planned(story: Story) -> None:
    story.node("worker-9", "worker")
    story.reap("worker-9", -9)


# processes, convergence


@told("processes.unreaped", UNSURE)
def process_left_behind(story: Story) -> None:
    story.node("worker-9", "worker")


@told("processes.crashed", UNSURE)
def node_that_crashed(story: Story) -> None:
    story.node("worker-9", "worker")
    story.reap("worker-9", 1)


@told("convergence.timed_out", UNSURE)
def time_ran_out(story: Story) -> None:
    story.spec.update(converged=False, progressing=True)


@told("convergence.stranded", FAIL)
def stood_still(story: Story) -> None:
    story.spec.update(converged=False, progressing=False)


# lost, never_opened, orphan_effects, durable_start


@told("lost.unfinished", FAIL)
def lost_instance(story: Story) -> None:
    _unfinish(story, 0)


@told("lost.unfinished convergence.timed_out", UNSURE)
def unfinished_when_time_ran_out(story: Story) -> None:
    _unfinish(story, 0)
    story.spec.update(converged=False, progressing=True)


@told("lost.unfinished convergence.stranded", FAIL)
def stranded_instance(story: Story) -> None:
    _unfinish(story, 0)
    story.spec.update(converged=False, progressing=False)


@told("never_opened.no_row", FAIL)
def start_that_left_nothing(story: Story) -> None:
    one = _register_one_more(story)
    story.event("worker-2", "start.invoke", instance_id=one)
    story.event("worker-2", "start.info", instance_id=one)


@told("never_opened.no_row durable_start.no_row", FAIL)
def acknowledged_start_that_is_gone(story: Story) -> None:
    one = _register_one_more(story)
    story.event("worker-2", "start.ok", instance_id=one)


@told("orphan_effects.no_row", FAIL)
def effect_of_nobody(story: Story) -> None:
    story.apply("worker-2", 0, 1)
    story.witness[-1]["instance_id"] = identity(77)


# acknowledged


@told("lost.unfinished acknowledged.end_missing", FAIL)
def acknowledged_end_that_is_gone(story: Story) -> None:
    _unfinish(story, 0)
    story.event("worker-2", "finished", instance_id=identity(0), token=1, state="Completed")


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
    _events(story, "finished", 0)[0]["state"] = "Failed"


@told("terminal.disagree", FAIL)
def told_as_another_end(story: Story) -> None:
    _events(story, "finished", 0)[0]["state"] = "Failed"


@told("terminal.unseen", UNSURE)
def end_that_nobody_told(story: Story) -> None:
    story.history.remove(_events(story, "finished", 5)[0])


@told("terminal.wake_left", FAIL)
def wake_of_an_ended_instance(story: Story) -> None:
    story.tables["wake"].append({"instance_id": identity(0), "seq": 1, "seen_seq": 1, "run_at": "2026-01-01"})


@told("lost.unfinished terminal.wake_missing", FAIL)
def live_instance_without_a_wake(story: Story) -> None:
    _unfinish(story, 0)
    story.tables["wake"].clear()


@told("lost.unfinished terminal.unwakeable", FAIL)
def nobody_will_look_again(story: Story) -> None:
    _unfinish(story, 0, seq=2, seen_seq=1, holder=None)
    story.row("instance", 0)["state"] = "Suspended"


# duplicates, arithmetic, in_doubt


@told("duplicates.against_guarantee", FAIL)
def committed_step_done_again(story: Story) -> None:
    story.apply("recovery-1", 3, 1)


@told("duplicates.against_guarantee", FAIL)
def again_under_the_same_token(story: Story) -> None:
    story.apply("worker-2", 0, 1)


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
    _events(story, "process.exited")[-2]["t"] = story.now()


@told("duplicates.between_live_workers fencing.stale_effect", FAIL)
def effect_of_a_zombie(story: Story) -> None:
    story.apply("worker-2", 2, 1, token=1)


@told("arithmetic.no_effect arithmetic.open", FAIL)
def committed_step_without_its_effect(story: Story) -> None:
    last = max(index for index, line in enumerate(story.witness) if line["process"] == "worker-2")
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
    story.sink.insert(1, {**story.sink[0], "instance_id": identity(1)})
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


@told("fencing.stale_finish", FAIL)
def end_under_a_stale_token(story: Story) -> None:
    _events(story, "finished", 3)[0]["token"] = 1


@told("fencing.stale_finish fencing.two_ends", FAIL)
def end_by_two(story: Story) -> None:
    story.event("worker-2", "finished", instance_id=identity(3), token=1, state="Completed")


@told("tokens.not_rising", FAIL)
def token_kept_on_takeover(story: Story) -> None:
    story.event("worker-2", "claimed", instance_id=identity(0), token=1, takeover=True)


@told("tokens.lease_missing", FAIL)
def lease_row_deleted(story: Story) -> None:
    story.tables["lease"].pop(0)


@told("tokens.lease_behind tokens.fence_differs", FAIL)
def lease_below_a_used_token(story: Story) -> None:
    story.row("lease", 3)["token"] = 1


@told("tokens.fence_differs fencing.stale_finish", FAIL)
def fence_not_raised_at_takeover(story: Story) -> None:
    story.row("instance", 3)["fence"] = 1


@told("tokens.claim_unseen", UNSURE)
def claim_that_nobody_told(story: Story) -> None:
    story.history.remove(_events(story, "claimed", 0)[0])


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
    story.apply("worker-2", 0, 3, attempt=2)
    story.commit(0, 3, attempt=2)


@told("sequences.counter", FAIL)
def counter_that_ran_ahead(story: Story) -> None:
    story.row("instance", 0)["next_sequence"] = 9


# expectations


@told("expectations.kills", UNSURE)
def other_kills_than_promised(story: Story) -> None:
    story.spec["expect"] = {"kills": 3}


@told("expectations.different", FAIL)
def other_duplicates_than_promised(story: Story) -> None:
    story.spec["expect"] = {"kills": 2, "duplicates_documented": 3}


@told("expectations.different expectations.kills", UNSURE)
def other_duplicates_and_other_kills(story: Story) -> None:
    story.spec["expect"] = {"kills": 3, "duplicates_documented": 3}


@told("expectations.unknown", UNSURE)
def promise_that_nobody_counts(story: Story) -> None:
    story.spec["expect"] = {"luck": 1}


# the bundle itself


@spoilt("bundle.unreadable", BROKEN)
def no_manifest(root: Path) -> None:
    (root / "manifest.json").unlink()


@spoilt("bundle.unreadable", BROKEN)
def nan_in_the_manifest(root: Path) -> None:
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":7', b'"seed":NaN'))


@spoilt("bundle.arm_unreadable", BROKEN)
def no_arm(root: Path) -> None:
    (root / "arms/before-commit").rename(root / "elsewhere")
    seal(root)


@spoilt("bundle.arm_unreadable", BROKEN)
def arm_without_a_declaration(root: Path) -> None:
    (root / "arms/before-commit/arm.json").write_bytes(b'{"name":"before-commit"}')
    seal(root)


@spoilt("bundle.arm_unreadable", BROKEN)
def arm_of_another_run(root: Path) -> None:
    (root / "arms/stranger").mkdir()


@spoilt("bundle.no_arms", UNSURE)
def no_arms(root: Path) -> None:
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'["before-commit"]', b"[]"))
    (root / "arms").rename(root / "elsewhere")
    seal(root)


@spoilt("manifest.incomplete", UNSURE)
def manifest_without_the_commit(root: Path) -> None:
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"commit"', b'"comment"'))
    seal(root)


@spoilt("manifest.aborted", UNSURE)
def interrupted_after_an_arm(root: Path) -> None:
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"dirty"', b'"aborted":"interrupted","dirty"'))
    seal(root)


@spoilt("manifest.broken", BROKEN)
def rig_that_broke_down(root: Path) -> None:
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"dirty"', b'"broken":"no space left","dirty"'))
    seal(root)


@spoilt("seal.none", UNSURE)
def never_sealed(root: Path) -> None:
    (root / "digests.json").unlink()


@spoilt("seal.broken", BROKEN)
def changed_after_the_seal(root: Path) -> None:
    path = root / "arms/before-commit/schedule.json"
    path.write_bytes(path.read_bytes() + b"\n")


@spoilt("seal.broken", BROKEN)
def file_added_after_the_seal(root: Path) -> None:
    (root / "arms/before-commit/history/late.jsonl").touch()


@spoilt("seal.broken", BROKEN)
def file_gone_since_the_seal(root: Path) -> None:
    (root / "arms/before-commit/history/worker-2.jsonl.bak").touch()
    seal(root)
    (root / "arms/before-commit/history/worker-2.jsonl.bak").unlink()


@spoilt("seal.broken", BROKEN)
def unreadable_seal(root: Path) -> None:
    (root / "digests.json").write_bytes(b"[]")
