"""Evidence changed in one place and sealed again: each change contradicts what stands elsewhere in the bundle."""

from __future__ import annotations

from pathlib import Path

import orjson
from tests.checkers.cases import BROKEN, FAIL, UNSURE, events, spoilt, told
from tests.checkers.make_bundle import Story, identity
from tests.checkers.operated_stories import buried, operated
from tests.checkers.stories import at_most_once, without_journal

from ninelives_rig.evidence.seal import seal


def _edit(root: Path, name: str, **fields: object) -> None:
    path = root / name
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **fields}))
    seal(root)


def _drop(root: Path, name: str, at: int) -> None:
    path = root / name
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[at]
    path.write_bytes(b"".join(lines))
    seal(root)


# results


@told("results.other", FAIL)
def result_that_no_step_returned(story: Story) -> None:
    story.row("instance", 0)["result"] = '{"step": 2}'


@told("results.other", FAIL)
def completed_without_a_result(story: Story) -> None:
    story.row("instance", 0)["result"] = ""


@told("results.step", FAIL)
def result_of_another_step(story: Story) -> None:
    story.row("step", 0)["result"] = '{"step": 2}'


@told("results.step", FAIL, operated)
def signal_with_another_payload(story: Story) -> None:
    story.tables["signal"][0]["payload"] = '{"signal": "other"}'


@told("results.input", FAIL)
def input_of_another_instance(story: Story) -> None:
    story.row("instance", 0)["input"] = '{"index":1}'


@told("results.told", FAIL)
def result_told_otherwise(story: Story) -> None:
    story.event("worker-1.2", "ended", instance_id=identity(5), state="Completed", result='{"step":2}')


@told("terminal.disagree", FAIL)
def client_was_told_of_another_end(story: Story) -> None:
    story.event("worker-1.2", "ended", instance_id=identity(5), state="Failed", result="null")


# records


@spoilt("records.miscounted kills.unplaced", UNSURE)
def last_effect_of_a_killed_process_is_lost(root: Path) -> None:
    _drop(root, "arms/before-commit/witness/recovery-1.jsonl", -1)


@spoilt("records.miscounted arithmetic.no_effect arithmetic.open", FAIL)
def last_effect_of_a_closed_process_is_lost(root: Path) -> None:
    _drop(root, "arms/before-commit/witness/worker-1.2.jsonl", -1)


@spoilt("records.unclosed", UNSURE)
def closing_line_is_lost(root: Path) -> None:
    _drop(root, "arms/before-commit/history/worker-1.2.jsonl", -1)


@spoilt("records.gap", UNSURE)
def event_in_the_middle_is_lost(root: Path) -> None:
    _drop(root, "arms/before-commit/history/worker-1.2.jsonl", 0)


@spoilt("records.gap records.miscounted", UNSURE)
def start_that_was_never_asked_for(root: Path) -> None:
    _drop(root, "arms/before-commit/history/coordinator.jsonl", 1)


@spoilt("records.miscounted", UNSURE)
def coordinator_cut_off(root: Path) -> None:
    _edit(root, "arms/before-commit/arm.json", coordinator_events=99)


@told("records.out_of_time", UNSURE)
def receipt_of_the_future(story: Story) -> None:
    story.receipts[0]["t"] += 10**15


@told("records.out_of_time", UNSURE)
def effect_behind_the_death(story: Story) -> None:
    line = [one for one in story.witness if one["process"] == "recovery-1"][-1]
    line["t"] = story.receipts[1]["t"] + 1


@told("records.out_of_time", UNSURE)
def event_before_the_arm(story: Story) -> None:
    events(story, "node.opened")[0]["t"] = 5


@told("records.stranger", UNSURE)
def receipt_of_another_role(story: Story) -> None:
    story.receipts[0]["role"] = "recovery"


@told("records.stranger evidence.witness_gap tokens.unheld", UNSURE)
def effect_of_another_process(story: Story) -> None:
    story.witness[0]["pid"] += 1000


@told("records.unknown", UNSURE)
def event_that_nobody_judges(story: Story) -> None:
    story.event("worker-1.2", "finishedx", instance_id=identity(5))


@told("records.unasked", UNSURE)
def answer_without_a_question(story: Story) -> None:
    story.event("worker-1.2", "start.ok", instance_id=identity(5))


@spoilt("evidence.damaged evidence.witness_gap records.gap records.miscounted arithmetic.no_effect "
        "arithmetic.open", UNSURE)  # fmt: skip
def line_of_another_process(root: Path) -> None:
    path = root / "arms/before-commit/witness/worker-1.2.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"process":"worker-1.2"', b'"process":"worker-1"', 1))
    path = root / "arms/before-commit/history/worker-1.2.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"process":"worker-1.2"', b'"process":"worker-1"', 1))
    seal(root)


# declaration


@told("declaration.reduced", UNSURE)
def tokens_declared_away(story: Story) -> None:
    story.spec["capabilities"]["tokens"] = False


@told("declaration.reduced", UNSURE)
def journal_declared_away(story: Story) -> None:
    story.spec["capabilities"]["journal"] = False


@spoilt("declaration.reduced", UNSURE, at_most_once)
def intents_declared_away(root: Path) -> None:
    _edit(root, "arms/at_most_once/arm.json", capabilities={"journal": True, "tokens": True, "intents": False})


@told("declaration.reduced", UNSURE, buried)
def features_declared_away(story: Story) -> None:
    story.spec["features"] = []


@told("declaration.reduced", UNSURE, operated)
def pauses_declared_away(story: Story) -> None:
    story.spec["pauses"] = False


@told("declaration.reduced", UNSURE, buried)
def fault_that_nobody_planned(story: Story) -> None:
    story.spec["disturbances"] = {}


@told("declaration.kills", UNSURE)
def fewer_kills_declared_than_scheduled(story: Story) -> None:
    story.spec["kills_planned"] -= 1


@told("declaration.nodes", UNSURE)
def node_that_nobody_asked_for(story: Story) -> None:
    story.spec["restarts"] = 2


@told("declaration.instances", UNSURE)
def instance_with_the_index_of_another(story: Story) -> None:
    story.instances[0]["started_by"] = "worker"


@told("declaration.ttl", UNSURE, buried)
def ttl_that_no_session_had(story: Story) -> None:
    story.spec["ttl_s"] = 60.0


@spoilt("manifest.other_run declaration.instances", UNSURE)
def another_seed(root: Path) -> None:
    _edit(root, "manifest.json", seed=8)


@spoilt("manifest.other_run", UNSURE)
def arm_taken_out_of_the_manifest(root: Path) -> None:
    run = orjson.loads((root / "arms/before-commit/arm.json").read_bytes())["run"]
    _edit(root, "arms/before-commit/arm.json", run={**run, "arms": [*run["arms"], "after-commit"]})


@spoilt("manifest.contradicted", UNSURE)
def settings_that_are_not_those_of_the_arm(root: Path) -> None:
    _edit(root, "manifest.json", settings={"fsync": "on", "ttl_s": 3.0})


@spoilt("bundle.arm_unreadable", BROKEN)
def duration_without_an_end(root: Path) -> None:
    _edit(root, "arms/before-commit/arm.json", ttl_s=-1.0)


# tables


@told("tables.row_twice", UNSURE)
def instance_row_twice(story: Story) -> None:
    story.tables["instance"].append(dict(story.tables["instance"][0]))


@told("tables.stranger", UNSURE)
def lease_of_nobody(story: Story) -> None:
    story.tables["lease"].append({"instance_id": identity(50), "token": 1, "holder": None})


@told("tables.half_ended", UNSURE)
def ended_without_a_time(story: Story) -> None:
    story.row("instance", 0)["finished_at"] = None


@told("tables.mislabelled", UNSURE)
def step_done_by_another_capability(story: Story) -> None:
    story.spec["steps"][0]["name"] = "four"
    for row in story.tables["step"]:
        row["capability_id"] = f"rig.{('one', 'two', 'three')[row['step_id'] - 1]}"


@told("tables.mislabelled", UNSURE)
def key_of_another_step(story: Story) -> None:
    story.witness[0]["key"] = f"{identity(0)}//2"


@told("tables.out_of_time", UNSURE)
def committed_in_another_year(story: Story) -> None:
    story.row("step", 0)["committed_at"] = "2016-01-01 00:00:01+00"


@told("tables.out_of_time", UNSURE)
def step_longer_than_its_arm(story: Story) -> None:
    story.row("step", 0)["duration_ms"] = 10**9


@told("evidence.damaged sequences.not_dense arithmetic.step_missing acknowledged.effect_before_commit "
      "sequences.counter", UNSURE)  # fmt: skip
def step_of_a_negative_duration(story: Story) -> None:
    story.row("step", 0)["duration_ms"] = -1


@told("evidence.damaged sequences.not_dense arithmetic.step_missing acknowledged.effect_before_commit "
      "sequences.counter", UNSURE)  # fmt: skip
def step_of_an_infinite_duration(story: Story) -> None:
    story.row("step", 0)["duration_ms"] = "Infinity"


@told("in_doubt.doubted_by_nobody", UNSURE, at_most_once)
def doubted_by_a_holder_that_never_was(story: Story) -> None:
    story.tables["intent"][0]["doubted_token"] = 7


@told("sessions.undead", UNSURE, buried)
def buried_and_never_dead(story: Story) -> None:
    story.tables["session"][0]["dead_at"] = None


# kills, attempts


@told("kills.unplaced", UNSURE)
def killed_before_its_effect(story: Story) -> None:
    story.receipts[0]["attempt"] = 2


@told("kills.misdirected", UNSURE)
def killed_under_too_small_a_token(story: Story) -> None:
    story.schedule[0]["token_min"] = 9


@told("arithmetic.attempt_skipped duplicates.against_guarantee", FAIL)
def attempt_without_its_predecessor(story: Story) -> None:
    story.apply("worker-1.2", 5, 3, attempt=3)


@told("records.stranger records.unclosed", UNSURE, without_journal)
def process_started_under_another_name(story: Story) -> None:
    events(story, "process.started")[0]["child"] = "worker-7"
