"""`ninelives signal | pause | resume | rerun`: what an operator does to one instance."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer

from ninelives import inspect
from ninelives.cli.options import (
    Dsn,
    InstanceId,
    Json,
    Key,
    Schema,
    instance_id_of,
    json_value,
    ready,
    text_of,
    uuid_of,
)
from ninelives.cli.report import Usage, note, print_json, reported, run_async, say
from ninelives.client import Client, connect
from ninelives.errors import InstanceFinished, InstanceUnknown, NinelivesError

_T = TypeVar("_T")

_SIGNALLED = {
    "accepted": "accepted",
    "duplicate": "duplicate: this signal id was accepted before, nothing was added",
    "buffered": "put aside: no instance has this id yet; it gets the signal when it is started",
}


class NotInDoubt(NinelivesError):
    """There is no effect in doubt that could be run again now."""

    code = "step.not_in_doubt"


def signal_command(
    instance_id: Annotated[str, typer.Argument(metavar="ID", help="The instance's id, a UUID.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name: the name of the wait.")],
    payload: Annotated[
        str, typer.Option(metavar="JSON|@file|-", help="What the wait returns: JSON, a file, or standard input.")
    ] = "null",
    signal_id: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Your own id: the same id is taken once.", show_default=False),
    ] = None,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """Send a signal. It is committed when the command returns, and consumed once, by the wait of that name."""
    with reported(json, lambda: "send it again with the same --signal-id"):
        wanted = uuid_of(instance_id)
        text_of("NAME", name)
        if signal_id is not None:
            text_of("--signal-id", signal_id)
        value = json_value("--payload", payload)
        outcome = _with_client(dsn, schema, lambda client: client.signal(wanted, name, value, signal_id=signal_id))
        if outcome == "finished":
            raise InstanceFinished(wanted)
        if outcome not in _SIGNALLED:
            raise InstanceUnknown(wanted)
        _tell(json, {"instance_id": str(wanted), "signal": name, "outcome": outcome}, _SIGNALLED[outcome])


def pause_command(
    instance_id: InstanceId = None, key: Key = None, dsn: Dsn = "", schema: Schema = "ninelives", json: Json = False
) -> None:
    """Let an instance start nothing more. A step that runs ends, and its result is kept."""
    with reported(json):
        wanted = instance_id_of(instance_id, key)
        _with_client(dsn, schema, lambda client: client.pause(wanted))
        _tell(json, {"instance_id": str(wanted), "paused": True}, f"paused {wanted}")


def resume_command(
    instance_id: InstanceId = None, key: Key = None, dsn: Dsn = "", schema: Schema = "ninelives", json: Json = False
) -> None:
    """Let a paused instance go on. One that is not paused is looked at again, an effect in doubt included."""
    with reported(json):
        wanted = instance_id_of(instance_id, key)
        _with_client(dsn, schema, lambda client: client.resume(wanted))
        _tell(json, {"instance_id": str(wanted), "paused": False}, f"resumed {wanted}")


def rerun_command(
    instance_id: Annotated[str, typer.Argument(metavar="ID", help="The instance's id, a UUID.")],
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step in doubt, by name or number.")],
    scope: Annotated[str, typer.Option(metavar="SCOPE", help="Where the step stands, as `show` tells it.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """Run an effect in doubt again, under a new key.

    Only for an effect that did not happen and cannot happen any more: if it did, it happens twice.
    """
    with reported(json):
        wanted = uuid_of(instance_id)
        text_of("STEP", step)
        checked = ready(dsn, schema)
        facts = run_async(lambda: inspect.show(checked, schema, wanted))
        intent = _doubted(facts, wanted, step, scope)
        _confirm(yes or json, intent)
        if json and not yes:
            raise Usage("--json asks no questions; add --yes when the effect surely did not and cannot happen")
        step_id = int(intent["step_id"])
        if not _with_client(checked, schema, lambda client: client.rerun_in_doubt(wanted, step_id, scope=scope)):
            raise NotInDoubt(
                f"step {step!r} of {wanted} is not in doubt any more, or a node has just taken it; see `ninelives show`"
            )
        told = {"instance_id": str(wanted), "step_id": step_id, "scope": scope, "voided_key": intent["idempotency_key"]}
        _tell(json, told, f"step {step!r} runs again under a new key")


def _doubted(facts: dict[str, Any], instance_id: UUID, step: str, scope: str) -> dict[str, Any]:
    if facts["terminal"]:
        raise InstanceFinished(instance_id)
    doubts: list[dict[str, Any]] = [line for line in facts["intents"] if line["in_doubt"]]
    for line in doubts:
        if line["scope"] == scope and step in (line["step"], str(line["step_id"])):
            if facts["lease"]["holder"] is not None:
                raise NotInDoubt(
                    f"step {step!r} of {instance_id} is being looked at by node {facts['lease']['node']}; "
                    "wait until nobody holds the instance"
                )
            return line
    listed = ", ".join(f"{line['step']!r}" + (f" in {line['scope']}" if line["scope"] else "") for line in doubts)
    raise NotInDoubt(f"step {step!r} of {instance_id} is not in doubt; in doubt: {listed or 'nothing'}")


def _confirm(sure: bool, intent: dict[str, Any]) -> None:
    if sure:
        return
    note(
        f"The effect with key {intent['idempotency_key']} will run again under a new key.\n"
        "If it happened after all, or still lands, it happens twice."
    )
    if not sys.stdin.isatty():
        raise Usage("nobody is there to answer; add --yes when the effect surely did not and cannot happen")
    if not typer.confirm("Is it sure that it did not happen and cannot any more?", err=True):
        raise Usage("nothing was changed")


def _with_client(dsn: str, schema: str, work: Callable[[Client], Awaitable[_T]]) -> _T:
    checked = ready(dsn, schema)

    async def inside() -> _T:
        async with connect(checked, schema=schema) as client:
            return await work(client)

    return run_async(inside)


def _tell(json: bool, facts: dict[str, Any], text: str) -> None:
    if json:
        print_json(facts)
    else:
        say(text)
