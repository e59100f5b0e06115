"""Good stories: one for each effect and kill position, and one of an engine without a journal."""

from __future__ import annotations

from tests.checkers.make_bundle import Story


def open_story(story: Story) -> None:
    """Start every flow from the coordinator, and a worker and a recovery node."""
    for index in range(len(story.instances)):
        story.start(index)
    story.node("worker-1", "worker")
    story.node("recovery-1", "recovery")


def idempotent() -> Story:
    """Six flows: 0 and 1 undisturbed, a worker killed with 2 and 3, a recovery node with 4, one failed attempt in 5."""
    story = Story()
    open_story(story)
    for index in (0, 1):
        story.claim("worker-1", index)
        story.run("worker-1", index)
    for index in (2, 3):
        story.claim("worker-1", index)
    story.step("worker-1", 3, 1)
    story.apply("worker-1", 2, 1)
    story.kill("worker-1", 2, 1)
    story.node("worker-1.2", "worker")
    story.claim("recovery-1", 2)
    story.claim("recovery-1", 3)
    story.run("recovery-1", 2)
    story.run("recovery-1", 3, first=2)
    story.claim("recovery-1", 4)
    story.step("recovery-1", 4, 1)
    story.apply("recovery-1", 4, 2)
    story.kill("recovery-1", 4, 2)
    story.claim("worker-1.2", 4)
    story.run("worker-1.2", 4, first=2)
    story.claim("worker-1.2", 5)
    story.commit(5, 1, outcome="Failure")
    story.apply("worker-1.2", 5, 1, attempt=2)
    story.commit(5, 1, attempt=2)
    story.run("worker-1.2", 5, first=2)
    story.close()
    return story


def after_commit() -> Story:
    """Two flows, one worker killed when the first step of flow 1 was committed."""
    story = Story("after-commit", position="after-commit", flows=2)
    open_story(story)
    story.claim("worker-1", 0)
    story.run("worker-1", 0)
    story.claim("worker-1", 1)
    story.step("worker-1", 1, 1)
    story.kill("worker-1", 1, 1)
    story.claim("recovery-1", 1)
    story.run("recovery-1", 1, first=2)
    story.close()
    return story


def at_most_once() -> Story:
    """Two flows: 0 is reconciled as done; in 1 the intent is voided, and a second attempt has the effect."""
    story = Story("at_most_once", effect="at_most_once", flows=2)
    open_story(story)
    for index in (0, 1):
        story.claim("worker-1", index)
    intents = [story.intend(index, 1) for index in (0, 1)]
    story.apply("worker-1", 0, 1)
    story.kill("worker-1", 0, 1)
    for index in (0, 1):
        story.claim("recovery-1", index)
        intents[index]["doubted_token"] = 2
    story.commit(0, 1)
    intents[0]["outcome"], intents[1]["outcome"] = "done", "voided"
    second = story.intend(1, 1, attempt=2)
    story.apply("recovery-1", 1, 1, attempt=2)
    story.commit(1, 1, attempt=2)
    second["outcome"] = "committed"
    for index in (0, 1):
        story.run("recovery-1", index, first=2)
    story.spec["expect"] = {"duplicates_documented": 0, "duplicates_against": 0, "in_doubt": 2, "kills": 1}
    story.close()
    return story


def transactional() -> Story:
    """Two flows, a worker killed in the transaction of flow 1: its ledger row is gone with it."""
    story = Story("transactional", effect="transactional", flows=2)
    open_story(story)
    story.claim("worker-1", 0)
    story.run("worker-1", 0)
    story.claim("worker-1", 1)
    story.kill("worker-1", 1, 1, boundary="transaction.prepared")
    story.claim("recovery-1", 1)
    story.run("recovery-1", 1)
    story.close()
    return story


def without_journal() -> Story:
    """An engine without a journal that starts again at the step that was interrupted: only the window is repeated."""
    story = Story("bare", flows=2, journal=False)
    open_story(story)
    story.run("worker-1", 0)
    story.step("worker-1", 1, 1)
    story.apply("worker-1", 1, 2)
    story.kill("worker-1", 1, 2, boundary="workload.returned")
    story.run("recovery-1", 1, first=2)
    story.close()
    return story


def frozen() -> Story:
    """Three flows: a worker is stopped with 0 and 1, thawed, applies one step late and tells of its claim of 1 late."""
    story = Story("frozen", flows=3)
    story.spec["disturbances"] = {"freeze": 1}
    open_story(story)
    for index in (0, 1):
        story.claim("worker-1", index)
    late = story.history.pop()
    story.step("worker-1", 0, 1)
    pid = story.pids["worker-1"]
    story.event("coordinator", "process.frozen", child="worker-1", child_pid=pid, proof="SIGSTOP sent")
    for index in (0, 1):
        story.claim("recovery-1", index)
    story.event("coordinator", "process.thawed", child="worker-1", child_pid=pid, proof="was in state T")
    story.apply("worker-1", 0, 2, token=1)
    story.history.append({**late, "t": story.now()})
    story.run("recovery-1", 0, first=2)
    story.run("recovery-1", 1)
    story.claim("recovery-1", 2)
    story.kill("recovery-1", 2, 1, boundary="claim.committed")
    story.claim("worker-1", 2)
    story.run("worker-1", 2)
    story.close()
    return story


GOOD = (idempotent, after_commit, frozen, at_most_once, transactional, without_journal)

__all__ = [
    "GOOD",
    "after_commit",
    "at_most_once",
    "frozen",
    "idempotent",
    "open_story",
    "transactional",
    "without_journal",
]
