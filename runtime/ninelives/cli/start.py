"""`ninelives start`: start an instance of a flow that a node has registered, and wait for its end on request."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from ninelives import inspect
from ninelives.cli.options import Dsn, Json, Key, Schema, json_value, ready, text_of, uuid_for, uuid_of
from ninelives.cli.report import Usage, note, one_line, print_json, reported, run_async, say
from ninelives.client import connect
from ninelives.errors import InstanceFailed, NinelivesError, SettingRefused
from ninelives.ids import new_instance_id

WAIT_S_MAX = 366 * 86_400.0
LOOK_S: Final = 1.0

Facts = dict[str, Any]


class StillRunning(NinelivesError):
    """The wait is over and the instance is not; it goes on."""

    code = "instance.running"


FlowId = Annotated[str, typer.Argument(metavar="FLOW_ID", help="The flow's id, like order.place.")]
Input = Annotated[
    str, typer.Option("--input", metavar="JSON|@file|-", help="The flow's input: JSON, a file, or standard input.")
]
OwnId = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="UUID", help="Your own id: a repeated start returns the same instance.", show_default=False
    ),
]
Version = Annotated[
    str | None, typer.Option("--version", metavar="V", help="Default: the newest registered.", show_default=False)
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end and print the result.")]
TimeoutS = Annotated[float | None, typer.Option(help="With --wait: seconds to wait at most.", show_default=False)]


def start_command(
    flow_id: FlowId,
    value: Input = "null",
    instance_id: OwnId = None,
    key: Key = None,
    version: Version = None,
    wait: Wait = False,
    timeout_s: TimeoutS = None,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """Start a flow. When the command returns, the start is committed and survives everything."""
    started: list[UUID] = []

    def when_interrupted() -> str:
        return f"instance {started[0]} is started and goes on" if started else "start it again with the same --id"

    with reported(json, when_interrupted):
        text_of("FLOW_ID", flow_id)
        if version is not None:
            text_of("--version", version)
        _check_wait(wait, timeout_s)
        wanted = _wanted(instance_id, key)
        given = json_value("--input", value)
        checked = ready(dsn, schema)

        async def work() -> Any:
            async with connect(checked, schema=schema) as client:
                handle = await client.start_named(flow_id, given, version=version, instance_id=wanted)
                started.append(handle.instance_id)
                if not wait:
                    return None
                note(f"started {handle.instance_id}, waiting for its end")
                telling = asyncio.ensure_future(_tell_waits(checked, schema, handle.instance_id))
                try:
                    return await handle.result(timeout_s)
                except TimeoutError:
                    raise StillRunning(
                        f"instance {handle.instance_id} has not ended within {timeout_s:g} s and goes on; "
                        f"see `ninelives show {handle.instance_id}`"
                    ) from None
                finally:
                    telling.cancel()
                    await asyncio.gather(telling, return_exceptions=True)

        try:
            result = run_async(work)
        except InstanceFailed as error:
            if json:
                print_json({"instance_id": error.instance_id, "state": error.state, "error": error.error})
                note(f"error: {error}")
                raise typer.Exit(1) from None
            raise
        _tell(started[0], wait, result, json)


async def _tell_waits(dsn: str, schema: str, instance_id: UUID) -> None:
    """Say what the instance waits for, once for each change: somebody may have to do something about it."""
    told: str | None = None
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            waits = _waits(await inspect.show(dsn, schema, instance_id, attempts_max=1))
        except NinelivesError:
            continue  # the wait for the result tells what ends it
        if waits is not None and waits != told:
            note(waits)
        told = waits


def _waits(facts: Facts) -> str | None:
    """Say in one line what holds an instance up and what to do; None while it is at work."""
    coming, instance_id = facts["next"], facts["instance_id"]
    if coming is None:
        return None
    place = "" if coming["name"] is None else f"step {coming['step_id']} {coming['name']!r}: "
    text = {
        "paused": coming["text"],
        "in_doubt": f"{place}in doubt, nobody knows whether its effect happened; "
        f"`ninelives show {instance_id}` tells what to do",
        "signal": f"{place}{coming['text']}; `ninelives signal {instance_id} {coming['name']}` sends it",
        "later": f"{place}{coming['text']}; `ninelives show {instance_id}` tells why",
        "due": None if facts["nodes_alive"] else coming["text"],
    }.get(coming["why"])
    return None if text is None else f"waiting: {text}"


def _tell(instance_id: UUID, wait: bool, result: Any, json: bool) -> None:
    if json:
        print_json({"instance_id": str(instance_id)} | ({"state": "Completed", "result": result} if wait else {}))
    elif wait:
        say(one_line(result, 1 << 30))
    else:
        say(str(instance_id))


def _check_wait(wait: bool, timeout_s: float | None) -> None:
    if timeout_s is None:
        return
    if not 0 < timeout_s <= WAIT_S_MAX:
        raise SettingRefused("timeout_s", f"is {timeout_s}; give a number above 0, up to {WAIT_S_MAX:.0f}")
    if not wait:
        raise Usage("--timeout-s counts only with --wait; add it")


def _wanted(instance_id: str | None, key: str | None) -> UUID:
    """Choose the id here, so that a start whose answer was lost can be repeated under it."""
    if instance_id is not None and key is not None:
        raise Usage("give --id or --key, not both")
    if instance_id is not None:
        return uuid_of(instance_id)
    return uuid_for(key) if key is not None else new_instance_id()
