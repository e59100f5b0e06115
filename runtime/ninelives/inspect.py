"""Look at instances without touching them: what is done, what comes next, who holds it, what is in doubt.

Each look is one statement on a connection of its own, so that it is one consistent moment, works beside a busy or
broken node, and delays nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from ninelives import queries
from ninelives.errors import InstanceUnknown, SettingRefused, StoreUnavailable
from ninelives.frontier import Frontier, IntentRow, StepRow
from ninelives.packing import int4
from ninelives.wire import Parameter, Wire

Facts = dict[str, Any]

STATES: Final = (
    "Pending", "Running", "Suspended", "Compensating",
    "Completed", "Failed", "TimedOut", "CompensationFailed", "Terminated",
)  # fmt: skip
ATTEMPTS_MAX: Final = 50
LIMIT_MAX: Final = 10_000


async def show(
    dsn: str, schema: str, instance_id: UUID, *, attempts_max: int = ATTEMPTS_MAX, connect_timeout_s: int = 10
) -> Facts:
    """Return everything the store knows of one instance as plain JSON values.

    The last ``attempts_max`` attempts and intents are listed, open intents first. Raises ``InstanceUnknown`` and
    ``StoreUnavailable``.
    """
    check_limit("attempts", attempts_max)
    values = (instance_id.bytes, int4(attempts_max))
    found = await _look(dsn, schema, "inspect_instance", values, connect_timeout_s)
    if found is None:
        raise InstanceUnknown(instance_id)
    return _told(found)


async def listing(
    dsn: str,
    schema: str,
    *,
    state: str | None = None,
    flow_id: str | None = None,
    limit: int = 50,
    in_doubt: bool = False,
    connect_timeout_s: int = 10,
) -> Facts:
    """Return ``instances``, newest first, at most ``limit``; ``more`` where there are others; ``counts`` by state.

    The counts are of all instances that match, also beyond ``limit``. Raises ``SettingRefused`` for a state that does
    not exist and ``StoreUnavailable``.
    """
    check_limit("limit", limit)
    check_state(state)
    wanted_state, wanted_flow = (None if text is None else text.encode() for text in (state, flow_id))
    values = (wanted_state, wanted_flow, int4(limit + 1), b"\1" if in_doubt else b"\0")
    found = await _look(dsn, schema, "inspect_list", values, connect_timeout_s)
    assert found is not None
    instances = [_in_utc(line) for line in found["instances"] or ()]
    return {
        "read_at": _utc(found["read_at"]),
        "counts": found["counts"] or {},
        "instances": instances[:limit],
        "more": len(instances) > limit,
    }


async def _look(dsn: str, schema: str, block: str, values: Sequence[Parameter], connect_timeout_s: int) -> Facts | None:
    text = queries.load(schema)[block]
    wire = await Wire.open(
        dsn, {block: text}, application_name="ninelives inspect", connect_timeout_s=connect_timeout_s
    )
    try:
        answer = await wire.ask([(block.encode(), values)])
    finally:
        wire.close()
    if not isinstance(answer, list):
        raise StoreUnavailable(f"the look was not answered: {answer.message}; try again")
    if not answer[0].ntuples:
        return None
    document: Facts = orjson.loads(answer[0].get_value(0, 0) or b"null")
    return document


def check_state(state: str | None) -> None:
    """Refuse a state that no instance can have; None is any."""
    if state is not None and state not in STATES:
        raise SettingRefused("state", f"is {state!r:.80}; choose one of {', '.join(STATES)}")


def check_limit(name: str, limit: int) -> None:
    """Refuse a number of lines that is not positive or too large for one document."""
    if not 1 <= limit <= LIMIT_MAX:
        raise SettingRefused(name, f"is {limit}; give a whole number from 1 to {LIMIT_MAX}")


def _told(found: Facts) -> Facts:
    """Put what was read in the order in which a reader asks."""
    instance = _in_utc(found["instance"])
    ended = found["wake"] is None
    outcome = instance.pop("result")
    rows, fence = instance.pop("rows"), instance.pop("fence")
    lease = _lease(found, fence)
    intents = [_intent(_in_utc(line), lease, ended) for line in found["intents"] or ()]
    nodes = (found["plan"] or {}).get("nodes", [])
    names = {node["step_id"]: node["name"] for node in _every_node(nodes)}
    attempts = [_attempt(_in_utc(line), lease, names) for line in found["attempts"] or ()]
    for intent in intents:
        intent["step"] = names.get(intent["step_id"])
    frontier = _frontier(found, intents)
    steps = [_step(node, frontier) for node in nodes]
    told = {
        "read_at": _utc(found["read_at"]),
        **instance,
        "terminal": ended,
        "result": outcome if instance["state"] == "Completed" else None,
        "error": outcome if ended and instance["state"] != "Completed" else None,
        "steps": steps,
        "steps_done": sum(step["done"] for step in steps),
        "next": None,
        "lease": lease,
        "wake": None if found["wake"] is None else _in_utc(found["wake"]),
        "attempts": attempts,
        "attempts_total": rows,
        "intents": intents,
        "in_doubt": sum(intent["in_doubt"] for intent in intents),
        "signals_waiting": [_in_utc(line) for line in found["signals"] or ()],
        "signals_consumed": found["signals_consumed"],
        "nodes_alive": found["nodes_alive"],
    }
    if not ended:
        told["next"] = _next(told, frontier)
    return told


def _lease(found: Facts, fence: int) -> Facts:
    session = found["session"]
    lease: Facts = {
        "token": found["lease_token"],
        "fence": fence,
        "holder": found["holder"],
        "node": None,
        "session": None,
        "expires_at": None,
    }
    if lease["holder"] is not None:
        lease["session"] = _liveness(session)
    if session is not None:
        lease["node"] = session["node"]
        lease["expires_at"] = _utc(session["expires_at"])
    return lease


def _liveness(session: Facts | None) -> str:
    """Say whether a holder lives: `gone` is a lock that is lost, which the nodes notice within milliseconds."""
    if session is None:
        return "missing"
    if session["dead_at"] is not None:
        return "dead"
    if session["expired"]:
        return "expired"
    return "alive" if session["locked"] else "gone"


def _attempt(line: Facts, lease: Facts, names: dict[int, str]) -> Facts:
    # The journal keeps tokens, not nodes: only the present holder's node can be told.
    held = lease["holder"] is not None and line["token"] == lease["token"]
    value = line.pop("result")
    failed = line["outcome"] == "Failure"
    return {
        "sequence": line["sequence"],
        "scope": line["scope"],
        "step_id": line["step_id"],
        "step": names.get(line["step_id"]),
        **line,
        "node": lease["node"] if held else None,
        "result": None if failed else value,
        "error": value if failed else None,
    }


def _intent(line: Facts, lease: Facts, ended: bool) -> Facts:
    """Tell a doubt from an effect that is being run at this moment by a living holder."""
    running = (
        not ended and lease["session"] == "alive" and line["token"] == lease["fence"] and line["doubted_token"] is None
    )
    return {**line, "in_doubt": line["outcome"] is None and not running}


def _frontier(found: Facts, intents: Sequence[Facts]) -> Frontier:
    stored = found["frontier"]
    made = Frontier.restore(None, orjson.dumps(stored) if stored else None)
    for scope, step_id, attempt, sequence, outcome in found["behind"] or ():
        made.apply(StepRow(scope, step_id, attempt, sequence, outcome, None, None, None))
    for intent in intents:
        if intent["outcome"] in (None, "voided"):
            made.apply_intent(
                IntentRow(intent["scope"], intent["step_id"], intent["attempt"], intent["token"], intent["outcome"])
            )
    return made


def _step(node: Facts, frontier: Frontier) -> Facts:
    capability = node.get("capability") or {}
    return {
        "step_id": node["step_id"],
        "name": node["name"],
        "kind": node["kind"],
        "effect": capability.get("effect"),
        "done": frontier.is_done("", node["step_id"]),
    }


def _every_node(nodes: Sequence[Facts]) -> list[Facts]:
    every = []
    for node in nodes:
        every.append(node)
        for branch in node.get("branches", ()):
            every.extend(_every_node(branch["nodes"]))
    return every


def _next(told: Facts, frontier: Frontier) -> Facts:
    """Say what is to happen next and what it waits for: `why` for machines, `text` for people."""
    step = next((step for step in told["steps"] if not step["done"]), None)
    facts: Facts = {"step_id": None, "name": None, "kind": None, "attempt": None}
    if step is not None:
        trouble = frontier.trouble("", step["step_id"])
        open_intent = None if trouble is None else trouble.open_intent
        attempt = 1 if trouble is None else trouble.attempt + 1
        facts = {key: step[key] for key in ("step_id", "name", "kind")}
        facts["attempt"] = attempt if open_intent is None else open_intent.attempt
    why, text = _reason(told, step, facts["attempt"])
    return {**facts, "why": why, "text": text}


def _reason(told: Facts, step: Facts | None, attempt: int | None) -> tuple[str, str]:
    lease, wake = told["lease"], told["wake"]
    doubted = step is not None and any(
        intent["in_doubt"] and intent["step_id"] == step["step_id"] for intent in told["intents"]
    )
    if told["paused"]:
        return "paused", f"paused; `ninelives resume {told['instance_id']}` lets it go on"
    if lease["holder"] is not None and lease["session"] != "alive":
        return "takeover", f"its holder is {lease['session']}; the next node that looks takes it over"
    if doubted:
        return "in_doubt", "nobody knows whether its effect happened; see the intents"
    if lease["holder"] is not None:
        return "running", f"attempt {attempt} on node {lease['node']}" if step else f"on node {lease['node']}"
    if wake["due"]:
        version = f"{told['flow_id']} {told['version']}"
        if not told["nodes_alive"]:
            return "due", f"due, but no node is running; start one that carries {version}: ninelives node MODULE:FLOW"
        return "due", f"due; waits for a node that carries {version} and has room"
    if step is not None and step["kind"] == "await_signal":
        return "signal", f"waits for the signal {step['name']!r}"
    if wake["run_at"] is not None:
        return "later", f"attempt {attempt} at {wake['run_at']}"
    return "resting", "rests until something wakes it"


def _in_utc(line: Facts) -> Facts:
    return {
        key: _utc(value) if key.endswith("_at") and isinstance(value, str) else value for key, value in line.items()
    }


def _utc(text: str) -> str:
    """Return a time of the server in UTC, whatever the session's time zone."""
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
