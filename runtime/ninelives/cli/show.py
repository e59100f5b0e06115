"""`ninelives show`: one instance, told so that an operator knows what to do next."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ninelives import inspect
from ninelives.cli.options import Dsn, InstanceId, Json, Key, Schema, instance_id_of, ready
from ninelives.cli.report import (
    clock,
    console,
    one_line,
    print_json,
    print_table,
    reported,
    run_async,
    say,
    since,
    span,
    visible,
)

_NAMES_MAX = 12
_SESSIONS = {
    "alive": "alive",
    "gone": "its lock is gone: dead, and about to be declared so",
    "dead": "declared dead",
    "expired": "expired",
    "missing": "not known any more",
}

Facts = dict[str, Any]


def show_command(
    instance_id: InstanceId = None,
    key: Key = None,
    attempts: Annotated[int, typer.Option(help="How many of the last attempts to list.")] = inspect.ATTEMPTS_MAX,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """Show an instance: state, what is done and what comes next, attempts, tokens, lease, doubts, signals."""
    with reported(json):
        wanted = instance_id_of(instance_id, key)
        inspect.check_limit("attempts", attempts)
        checked = ready(dsn, schema)
        facts = run_async(lambda: inspect.show(checked, schema, wanted, attempts_max=attempts))
        if json:
            print_json(facts)
        else:
            _tell(facts)


def _tell(facts: Facts) -> None:
    now = facts["read_at"]
    say(f"{facts['instance_id']}  {facts['flow_id']} {facts['version']}")
    _line("state", facts["state"] + (" (paused)" if facts["paused"] else ""))
    _line("created", f"{clock(facts['created_at'])} UTC, {since(facts['created_at'], now)}")
    if facts["finished_at"]:
        _line("ended", f"{clock(facts['finished_at'])} UTC, {since(facts['finished_at'], now)}")
    if facts["deadline_at"]:
        _line("deadline", f"{clock(facts['deadline_at'])} UTC, {since(facts['deadline_at'], now)}")
    _line("input", one_line(facts["input"]))
    if facts["state"] == "Completed":
        _line("result", one_line(facts["result"]))
    if facts["error"] is not None:
        _line("error", _error_text(facts["error"]))
    _line("done", _done(facts))
    if facts["next"]:
        _line("next", _next(facts["next"]))
    _line("lease", _lease(facts["lease"], now))
    if facts["wake"]:
        _line("wake", _wake(facts["wake"], now))
    _attempts(facts)
    _intents(facts)
    _signals(facts)


def _line(name: str, text: str) -> None:
    from rich.text import Text

    line = Text(f"{name:<9} ", style="bold")
    line.append(Text(visible(text), style="" if name != "error" else "red"))
    console().print(line, soft_wrap=True)


def _done(facts: Facts) -> str:
    names = [step["name"] for step in facts["steps"] if step["done"]]
    listed = ", ".join(names if len(names) <= _NAMES_MAX else ["…", *names[-_NAMES_MAX:]])
    return f"{len(names)} of {len(facts['steps'])} steps" + (f": {listed}" if names else "")


def _next(coming: Facts) -> str:
    place = "" if coming["name"] is None else f"step {coming['step_id']} {coming['name']!r}: "
    return place + str(coming["text"])


def _lease(lease: Facts, now: str) -> str:
    token = f"token {lease['token'] if lease['token'] is not None else '-'}, fence {lease['fence']}"
    if lease["holder"] is None:
        return f"{token}, held by nobody"
    session = f"session {lease['holder']}, {_SESSIONS[lease['session']]}"
    expires = f", expires {since(lease['expires_at'], now)}" if lease["expires_at"] else ""
    return f"{token}, held by node {lease['node'] or '?'} ({session}{expires})"


def _wake(wake: Facts, now: str) -> str:
    due = "not due by time" if wake["run_at"] is None else f"due {since(wake['run_at'], now)}"
    return f"seq {wake['seq']}, seen {wake['seen_seq']}, {due}"


def _attempts(facts: Facts) -> None:
    attempts = facts["attempts"]
    if not attempts:
        say("\nno attempt is committed yet")
        return
    total = facts["attempts_total"]
    say("\nattempts" if len(attempts) == total else f"\nthe last {len(attempts)} of {total} attempts (--attempts)")
    rows = [
        [
            str(line["sequence"]),
            _step_name(line),
            str(line["attempt"]),
            line["outcome"],
            str(line["token"]),
            line["node"] or "-",
            span(line["duration_ms"] / 1000),
            clock(line["committed_at"]),
            _error_text(line["error"]) if line["outcome"] == "Failure" else one_line(line["result"], 60),
        ]
        for line in attempts
    ]
    columns = ["seq", "step", "attempt", "outcome", "token", "node", "took", "committed (UTC)", "result or error"]
    print_table(columns, rows, folds="result or error")


def _intents(facts: Facts) -> None:
    if not facts["intents"]:
        return
    say("\nintents (at_most_once)")
    rows = [
        [
            _step_name(line),
            str(line["attempt"]),
            str(line["token"]),
            "IN DOUBT" if line["in_doubt"] else line["outcome"] or "running",
            clock(line["created_at"]),
            clock(line["settled_at"]),
            line["idempotency_key"],
        ]
        for line in facts["intents"]
    ]
    print_table(["step", "attempt", "token", "outcome", "created (UTC)", "settled (UTC)", "key"], rows)
    for line in facts["intents"]:
        if line["in_doubt"]:
            say(_advice(facts, line))


def _advice(facts: Facts, line: Facts) -> str:
    """Say what an operator can do about an effect of which nobody knows whether it happened."""
    step = line["step"] or line["step_id"]
    scope = f" --scope {line['scope']}" if line["scope"] else ""
    ask = f"in doubt: {step!r} may or may not have happened. Ask the outside system about key {line['idempotency_key']}"
    if facts["terminal"]:
        return f"\n{ask}; the instance has ended and will not run it again."
    return (
        f"\n{ask}.\n"
        "  It did not happen and cannot any more (cancelled, or refused for ever):  "
        f"ninelives rerun {facts['instance_id']} {step}{scope} --yes\n"
        "  It did happen, and the capability's reconcile can say so by now:          "
        f"ninelives resume {facts['instance_id']}   (asks it again)"
    )


def _signals(facts: Facts) -> None:
    waiting = facts["signals_waiting"]
    if waiting:
        say("\nsignals waiting")
        rows = [
            [line["name"], line["signal_id"], clock(line["received_at"]), one_line(line["payload"], 60)]
            for line in waiting
        ]
        print_table(["name", "id", "received (UTC)", "payload"], rows, folds="payload")
    if facts["signals_consumed"]:
        say(f"\nsignals consumed: {facts['signals_consumed']}")


def _step_name(line: Facts) -> str:
    name = line["step"] or "?"
    return f"{line['step_id']} {name}" + (f" in {line['scope']}" if line["scope"] else "")


def _error_text(error: object) -> str:
    if not isinstance(error, dict):
        return one_line(error)
    kind, message = error.get("type"), error.get("message")
    return f"{kind}: {message}" if kind and message else str(message or one_line(error))
