"""Bad evidence: parts that are missing, unreadable or unproved. None of it can pass."""

from __future__ import annotations

from pathlib import Path

from tests.checkers.cases import BROKEN, FAIL, UNSURE, events, register_one_more, spoilt, told
from tests.checkers.make_bundle import Story, identity
from tests.checkers.stories import (
    open_story,
)

from ninelives_rig.evidence.seal import seal

# evidence


@spoilt("evidence.damaged", UNSURE)
def not_json_in_the_middle(root: Path) -> None:
    path = root / "arms/before-commit/history/worker-1.2.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"t":12,"process"\n' + b"".join(lines[1:]))
    seal(root)


@spoilt("evidence.damaged", UNSURE)
def nan_in_an_event(root: Path) -> None:
    path = root / "arms/before-commit/history/worker-1.2.jsonl"
    path.write_bytes(path.read_bytes() + b'{"t":NaN,"process":"worker-1.2","pid":1,"event":"x"}\n')
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


@told("evidence.empty kills.no_exit kills.unplaced records.stranger terminal.unseen tokens.claim_unseen "
      "tokens.unheld", UNSURE)  # fmt: skip
def empty_history(story: Story) -> None:
    story.history.clear()


@told("kills.unplaced evidence.empty arithmetic.no_effect arithmetic.open", FAIL)
def empty_witness(story: Story) -> None:
    story.witness.clear()


@told("evidence.witness_gap arithmetic.no_effect arithmetic.open", UNSURE)
def lost_witness_line(story: Story) -> None:
    story.witness.pop(1)


@told("evidence.truncated", UNSURE)
def half_a_line_without_a_kill(story: Story) -> None:
    story.tails["history/coordinator.jsonl"] = b'{"t":17,"proc'


@told("evidence.silent_process records.unclosed", UNSURE)
def node_without_history(story: Story) -> None:
    story.node("worker-9", "worker")
    story.reap("worker-9")
    story.history[:] = [event for event in story.history if event["process"] != "worker-9"]


# population


@told("population.size", UNSURE)
def fewer_flows_than_asked_for(story: Story) -> None:
    story.spec["flows"] = 7


@told("declaration.instances population.unregistered population.not_started", UNSURE)
def instance_of_another_run(story: Story) -> None:
    story.instances[5]["instance_id"] = identity(99)


@told("population.not_started", UNSURE)
def nobody_started_it(story: Story) -> None:
    register_one_more(story)


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


@told("records.unclosed kills.no_exit", UNSURE)
def exit_code_0_instead_of_the_signal(story: Story) -> None:
    events(story, "process.exited")[0]["exitcode"] = 0


@told("kills.no_exit kills.no_receipt_for_exit", UNSURE)
def another_process_with_the_same_pid(story: Story) -> None:
    story.receipts[0]["start_time"] += 1


@told("kills.misdirected", UNSURE)
def kill_of_another_instance(story: Story) -> None:
    story.schedule[0]["instance_id"] = identity(0)


@told("declaration.kills kills.misdirected", UNSURE)
def kill_at_another_boundary(story: Story) -> None:
    story.schedule[0]["boundary"] = "body.entered"


@told("kills.shared_death", UNSURE)
def two_receipts_for_one_death(story: Story) -> None:
    story.schedule.append({**story.schedule[0], "kill_id": "k0009"})
    story.receipts.append({**story.receipts[0], "kill_id": "k0009"})
    story.spec["kills_planned"] += 1


@told("records.unclosed kills.no_receipt_for_exit", UNSURE)
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


@spoilt("manifest.other_run manifest.incomplete", UNSURE)
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
    (root / "arms/before-commit/history/worker-1.2.jsonl.bak").touch()
    seal(root)
    (root / "arms/before-commit/history/worker-1.2.jsonl.bak").unlink()


@spoilt("seal.broken", BROKEN)
def unreadable_seal(root: Path) -> None:
    (root / "digests.json").write_bytes(b"[]")
