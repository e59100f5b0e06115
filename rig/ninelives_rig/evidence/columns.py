"""Which files an arm's evidence must bring, and which columns of them judging reads."""

from __future__ import annotations

from collections.abc import Mapping

from ninelives_rig.evidence.spec import FAULT_EVENTS, ArmSpec
from ninelives_rig.evidence.tables import Column, flag, number, text

_STEP_KEY = (
    text("instance_id"),
    text("scope", blank=True, required=False),
    number("step_id"),
    number("attempt"),
)
HISTORY = (
    number("t"),
    number("seq"),
    text("process"),
    number("pid"),
    text("event"),
    text("instance_id", required=False),
    number("token", required=False),
    flag("takeover", required=False),
    text("state", required=False),
    text("result", required=False),
    text("child", required=False),
    text("role", required=False),
    number("child_pid", required=False),
    number("child_start_time", required=False),
    number("exitcode", required=False, least=-64),
    text("signal_id", required=False),
    number("session_id", required=False),
    number("effects", required=False),
    text("kill_id", required=False),
    text("statement", required=False),
    text("when", required=False),
    text("phase", required=False),
    text("proof", required=False),
)
EVENTS = frozenset(
    [
        *("phase", "process.started", "process.exited"),
        *(event for told in FAULT_EVENTS.values() for event in (told.begun, told.over) if event),
        *("start.invoke", "start.ok", "start.info", "start.fail"),
        *(f"{what}.{told}" for what in ("signal", "pause", "resume") for told in ("invoke", "ok", "info")),
        *("node.opened", "node.struck", "node.closed", "claimed", "finished", "ended", "fenced", "answer.lost"),
    ]
)
"""Every event that the rig tells of. What is called otherwise would be judged by nobody."""
PHASES = ("start", "disturb", "heal", "drain", "stop", "collect")
EFFECT_KINDS = ("do", "repeat", "voided")
INSTANCES = (number("index"), text("instance_id"), text("started_by"))
SCHEDULE = (
    text("kill_id"),
    text("instance_id", required=False),
    number("step_id", required=False),
    text("boundary"),
    text("position"),
    number("token_min", required=False),
    text("role", required=False),
)
RECEIPT = (
    text("kill_id"),
    number("t"),
    text("process"),
    text("role"),
    number("pid"),
    number("start_time"),
    text("instance_id", required=False),
    text("scope", blank=True, required=False),
    number("step_id", required=False),
    number("attempt", required=False),
    number("token", required=False),
    text("boundary"),
)


_SIGNAL = (
    text("instance_id"),
    text("signal_id"),
    text("name"),
    text("payload", required=False),
    text("received_at", required=False),
    text("consumed_scope", required=False, blank=True),
    number("consumed_step_id", required=False),
    number("consumed_token", required=False),
)
_INTENT = (
    number("doubted_token", required=False),
    text("outcome", required=False),
    *(text(name, required=False) for name in ("idempotency_key", "created_at", "settled_at")),
)


def witness_columns(tokens: bool) -> tuple[Column, ...]:
    """Return the columns of a witness file."""
    return (
        number("t"),
        number("seq", required=False),
        text("process"),
        number("pid"),
        *_STEP_KEY,
        number("token", required=tokens),
        text("kind", required=False),
        text("key", required=False),
    )


def table_columns(spec: ArmSpec) -> Mapping[str, tuple[Column, ...]]:
    """Return every table that judging knows. What the declaration does not promise may be null."""
    tokens, versions = spec.tokens, "versions" in spec.features
    token = number("token", required=tokens)
    instance = (
        text("instance_id"),
        text("state"),
        flag("paused", required=tokens),
        number("fence", required=tokens),
        number("next_sequence", required=tokens),
        *(number(name, required=False) for name in ("snapshot_sequence", "version", "claims", "plan_id")),
        text("flow_id", required=False),
        text("flow_version", required=tokens and versions),
        *(text(name, required=False) for name in ("created_at", "updated_at", "finished_at")),
        *(text(name, required=False) for name in ("input", "frontier", "result")),
    )
    step = (
        *_STEP_KEY,
        number("sequence", required=tokens),
        token,
        text("outcome"),
        number("duration_ms", required=False),
        *(text(name, required=False) for name in ("committed_at", "retry_at", "capability_id", "result")),
        text("capability_version", required=tokens and versions),
    )
    return {
        "instance": instance,
        "step": step,
        "lease": (text("instance_id"), token, text("holder", required=False)),
        "wake": (
            text("instance_id"),
            number("seq"),
            number("seen_seq"),
            text("run_at", required=False),
            text("holder", required=False),
        ),
        "session": (
            text("session_id"),
            text("node_name", required=False),
            text("opened_at", required=False),
            text("expires_at"),
            text("dead_at", required=False),
        ),
        "signal": _SIGNAL,
        "intent": (*_STEP_KEY, token, *_INTENT),
        "ledger": (number("t_us"), *_STEP_KEY, token, number("pid")),
    }


def promised_tables(spec: ArmSpec) -> frozenset[str]:
    """Return the tables that this arm must bring; any other that is there is read all the same."""
    if not spec.journal:
        return frozenset({"instance"})
    wanted = {
        "instance": True,
        "step": True,
        "lease": spec.tokens,
        "wake": spec.tokens,
        "session": spec.tokens and "bury" in spec.features,
        "signal": bool(spec.waits),
        "intent": spec.intents,
        "ledger": spec.effect == "transactional",
    }
    return frozenset(name for name, is_wanted in wanted.items() if is_wanted)
