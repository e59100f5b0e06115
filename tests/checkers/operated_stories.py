"""Good stories of arms that ask for more than kills: signals and pauses, burials, two versions of a flow."""

from __future__ import annotations

from tests.checkers.make_bundle import Story, identity
from tests.checkers.stories import open_story


def operated() -> Story:
    """Two flows that wait for a signal in their second step; 0 is paused in its first, 1 is taken over."""
    story = Story("operated", flows=2)
    story.spec.update(features=["signals"], pauses=True)
    story.spec["steps"][1]["kind"] = "signal"
    open_story(story)
    for index in (0, 1):
        story.claim("worker-1", index)
        story.apply("worker-1", index, 1)
        story.event("coordinator", "signal.invoke", instance_id=identity(index), signal_id="s")
        story.event("coordinator", "signal.ok", instance_id=identity(index), signal_id="s")
        signal = {"instance_id": identity(index), "signal_id": "s", "name": "two", "consumed_step_id": 2}
        story.tables["signal"].append(signal)
    for told in ("pause.invoke", "pause.ok"):
        story.event("coordinator", told, instance_id=identity(0))
    story.commit(0, 1)
    story.event("coordinator", "resume.invoke", instance_id=identity(0))
    story.kill("worker-1", 1, 1)
    for index in (0, 1):
        story.claim("recovery-1", index)
    story.step("recovery-1", 1, 1)
    for index in (0, 1):
        story.commit(index, 2)
        story.step("recovery-1", index, 3)
        story.finish("recovery-1", index)
    story.close()
    return story


def buried() -> Story:
    """Two flows of version 1; a worker is declared dead while it holds 0, another dies with 1."""
    story = Story("buried", flows=2)
    story.spec.update(features=["bury", "versions"], disturbances={"bury": 1})
    open_story(story)
    for index in (0, 1):
        story.claim("worker-1", index)
    story.step("worker-1", 0, 1)
    pid = story.pids["worker-1"]
    story.event("coordinator", "process.buried", child="worker-1", child_pid=pid, proof="its session is marked dead")
    story.claim("recovery-1", 0)
    story.apply("worker-1", 0, 2, token=1)
    story.run("recovery-1", 0, first=2)
    story.apply("worker-1", 1, 1)
    story.kill("worker-1", 1, 1)
    story.claim("recovery-1", 1)
    story.run("recovery-1", 1)
    for row in story.tables["instance"]:
        row["flow_version"] = "1.0.0"
    for row in story.tables["step"]:
        row["capability_version"] = "1.0.0"
    names = {row["process"]: row["session_id"] for row in story.history if row["event"] == "node.opened"}
    for name, expires_at, dead_at in (
        ("worker-1", "2026-01-01 00:00:30.5+00", "2026-01-01 00:00:01.25+00"),
        ("recovery-1", "2026-01-01 00:00:31+00", None),
    ):
        row = {"session_id": names[name], "node_name": name, "opened_at": "2026-01-01 00:00:00.5+00"}
        row["server_start"] = "2025-12-31 23:59:59+00"
        story.tables["session"].append({**row, "expires_at": expires_at, "dead_at": dead_at})
    story.close()
    return story
