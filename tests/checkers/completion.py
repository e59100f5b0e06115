"""What the rig and the engine write beside what a story tells: numbers, closing lines, times, labels, results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.checkers.make_bundle import Story

_TERMINAL = ("Completed", "Failed", "TimedOut", "CompensationFailed", "Terminated")
_CREATED, _UPDATED = "2026-01-01 00:00:00.5+00", "2026-01-01 00:00:01+00"


def complete(story: Story) -> None:
    """Fill in whatever the story has not set itself."""
    _end_last(story)
    _close_books(story)
    _label(story)
    roles = {event["child"]: event["role"] for event in story.history if event["event"] == "process.started"}
    told = [event["t"] for event in story.history if event["process"] == "coordinator"]
    # worker-1.2 takes the place of worker-1.
    places = {child.partition(".")[0]: role for child, role in roles.items()}
    spec = {
        "workers": sum(role == "worker" for role in places.values()),
        "recovery_nodes": sum(role == "recovery" for role in places.values()),
        "restarts": len(roles) - len(places),
        "started_t": min(told, default=1) - 1,
        "ended_t": story.now(),
        "coordinator_events": len(told),
    }
    story.spec.update({name: value for name, value in spec.items() if name not in story.spec})
    for receipt in story.receipts:
        receipt.setdefault("role", roles.get(receipt["process"], "worker"))
    for number, line in enumerate(story.sink, 1):
        line["seq"] = number


def _end_last(story: Story) -> None:
    """Let every node that ended in order do so behind everything that a test has let it do since."""
    late: dict[Any, int] = {}
    ledger = [{**row, "t": row["t_us"] * 1000} for row in story.tables["ledger"]]
    for row in (*story.history, *story.witness, *story.sink, *ledger):
        if row.get("event") != "node.closed":
            late[row["pid"]] = max(late.get(row["pid"], 0), row["t"])
    ends = [event for event in story.history if event["event"] == "process.exited" and event["exitcode"] == 0]
    for end in ends:
        if late.get(end["child_pid"], 0) > end["t"]:
            closing = [event for event in story.history if event["event"] == "node.closed"]
            for event in (*(one for one in closing if one["process"] == end["child"]), end):
                event["t"] = story.now()
                story.history.remove(event)
                story.history.append(event)


def _close_books(story: Story) -> None:
    numbers: dict[str, int] = {}
    for event in story.history:
        process = event["process"]
        numbers[process] = numbers.get(process, 0) + 1
        event.setdefault("seq", numbers[process])
        if event["event"] in ("node.closed", "node.struck"):
            event.setdefault("effects", sum(line["process"] == process for line in story.witness))


def _label(story: Story) -> None:
    """Label the rows of the engine's tables, and give each instance that completed the result of its last step."""
    names = {step["step_id"]: step["name"] for step in story.spec["steps"]}
    waits = {step["step_id"] for step in story.spec["steps"] if step.get("kind") == "signal"}
    payloads = {}
    for signal in story.tables["signal"]:
        signal.setdefault("payload", f'{{"signal": "{signal["signal_id"]}"}}')
        payloads[signal["instance_id"], signal["consumed_step_id"]] = signal["payload"]
    results = {}
    for row in story.tables["step"]:
        if row["step_id"] in waits:
            row["result"] = payloads.get((row["instance_id"], row["step_id"]), row["result"])
        capability = "await_signal" if row["step_id"] in waits else f"rig.{names.get(row['step_id'])}"
        for name, value in (("capability_id", capability), ("duration_ms", 1), ("committed_at", _UPDATED)):
            row.setdefault(name, value)
        if row["step_id"] == max(names) and row["outcome"] == "Success":
            results[row["instance_id"]] = row["result"]
    for intent in story.tables["intent"]:
        key = f"{intent['instance_id']}/{intent['scope']}/{intent['step_id']}"
        intent.setdefault("idempotency_key", key)
        intent.setdefault("created_at", _UPDATED)
    for instance in story.tables["instance"]:
        labels: dict[str, Any] = {"flow_id": "rig.flow", "plan_id": 1, "snapshot_sequence": 0, "created_at": _CREATED}
        labels |= {"version": 4, "claims": 0}
        labels |= {"updated_at": _UPDATED, "result": results.get(instance["instance_id"])}
        labels["finished_at"] = _UPDATED if instance["state"] in _TERMINAL else None
        for name, value in labels.items():
            instance.setdefault(name, value)
