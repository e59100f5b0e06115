"""Tells small stories of a run and writes them as evidence bundles, in the format that the rig writes.

A ``Story`` is one arm. Its lists are plain, so that a test spoils a good story by changing one of them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from tests.checkers.completion import complete

from ninelives_rig.evidence.ids import expected_id
from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.spec import RUN_KEYS

Row = dict[str, Any]
COLUMNS = {
    "instances": ("index", "instance_id", "started_by"),
    "instance": (
        *("instance_id", "state", "paused", "fence", "next_sequence", "input", "flow_version", "flow_id", "plan_id"),
        *("snapshot_sequence", "frontier", "result", "created_at", "updated_at", "finished_at", "version", "claims"),
        *("parent_step_id", "parent_instance_id", "parent_scope", "resume_from_step", "deadline_at", "tenant_id"),
        "correlation_id",
    ),
    "step": (
        *("instance_id", "scope", "step_id", "attempt", "sequence", "token", "outcome", "result"),
        *("capability_id", "capability_version", "duration_ms", "committed_at", "retry_at", "nondeterministic"),
    ),
    "signal": ("instance_id", "signal_id", "name", "payload", "consumed_step_id"),
    "session": ("session_id", "node_name", "server_start", "opened_at", "expires_at", "dead_at"),
    "intent": (
        *("instance_id", "scope", "step_id", "attempt", "token", "doubted_token", "outcome"),
        *("idempotency_key", "created_at"),
    ),
    "lease": ("instance_id", "token", "holder"),
    "wake": ("instance_id", "seq", "seen_seq", "run_at", "holder"),
    "ledger": ("t_us", "instance_id", "scope", "step_id", "attempt", "token", "pid"),
}
_IDENTITY = re.compile(rb"00000000-0000-7000-8000-(\d{12})")
BOUNDARIES = {"before-commit": "body.returned", "after-commit": "journal.committed"}


def identity(index: int) -> str:
    """Return the id of the instance with this index."""
    return f"00000000-0000-7000-8000-{index:012d}"


class Story:
    """One arm, told event by event. Time moves by one millisecond with each of them."""

    def __init__(
        self,
        name: str = "before-commit",
        *,
        effect: str = "idempotent",
        position: str = "before-commit",
        flows: int = 6,
        journal: bool = True,
    ) -> None:
        self.t = 1_000_000_000
        self.effect, self.position, self.journal = effect, position, journal
        intents = journal and effect == "at_most_once"
        self.spec: Row = {
            "name": name,
            "effect": effect,
            "position": position,
            "steps": [
                {"step_id": n, "name": word, "service_s": 0.05, "kind": "step"}
                for n, word in enumerate(("one", "two", "three"), 1)
            ],
            "flows": flows,
            "kills_planned": 0,
            "in_flight": 4,
            "ttl_s": 30.0,
            "capabilities": {"journal": journal, "tokens": journal, "intents": intents},
            "expect": {},
            "converged": True,
            "converge_timeout_s": 60.0,
            "progressing": True,
            "deadlocks": 0,
            "idle_in_transaction": 0,
        }
        self.instances: list[Row] = [
            {"index": n, "instance_id": identity(n), "started_by": "coordinator"} for n in range(flows)
        ]
        self.schedule: list[Row] = []
        self.receipts: list[Row] = []
        self.history: list[Row] = []
        self.witness: list[Row] = []
        self.sink: list[Row] = []
        self.tables: dict[str, list[Row]] = {
            name: [] for name in ("instance", "step", "intent", "lease", "wake", "ledger", "signal", "session")
        }
        self.tails: dict[str, bytes] = {}
        self.pids: dict[str, int] = {}
        self._seqs: dict[str, int] = {}
        self._wakes: dict[str, Row] = {}

    def now(self) -> int:
        """Let a millisecond pass."""
        self.t += 1_000_000
        return self.t

    def event(self, process: str, event: str, **fields: Any) -> None:
        """Add an event to the history of a process."""
        pid = self.pids.get(process, 1)
        self.history.append({"t": self.now(), "process": process, "pid": pid, "event": event, **fields})

    def node(self, process: str, role: str) -> None:
        """Start a node."""
        self.pids[process] = 100 + len(self.pids)
        self.event(
            "coordinator",
            "process.started",
            child=process,
            role=role,
            child_pid=self.pids[process],
            child_start_time=5000 + self.pids[process],
        )
        self.event(process, "node.opened", session_id=2**62 + self.pids[process])

    def reap(self, process: str, exitcode: int = 0) -> None:
        """Let the coordinator reap a node; one that ended in order closed its books first."""
        if exitcode == 0:
            self.event(process, "node.closed")
        self.event(
            "coordinator",
            "process.exited",
            child=process,
            child_pid=self.pids[process],
            child_start_time=5000 + self.pids[process],
            exitcode=exitcode,
        )

    def start(self, index: int) -> None:
        """Start an instance from the coordinator."""
        self.event("coordinator", "start.invoke", instance_id=identity(index))
        row = {"instance_id": identity(index), "state": "Pending", "paused": "f", "fence": 0, "next_sequence": 1}
        self.tables["instance"].append({**row, "input": f'{{"index":\n{index}}}'})
        self._wakes[identity(index)] = {"instance_id": identity(index), "seq": 1, "seen_seq": 0, "run_at": "2026-01-01"}
        self.event("coordinator", "start.ok", instance_id=identity(index))

    def row(self, table: str, index: int) -> Row:
        """Return the first row of an instance in a table."""
        return next(row for row in self.tables[table] if row["instance_id"] == identity(index))

    def claim(self, process: str, index: int) -> None:
        """Let a node claim an instance."""
        instance = self.tables["instance"][index]
        instance["fence"] += 1
        instance["state"] = "Running"
        if instance["fence"] == 1:
            self.tables["lease"].append({"instance_id": identity(index), "holder": None})
        self._lease(index)["token"] = instance["fence"]
        takeover = instance["fence"] > 1
        self.event(process, "claimed", instance_id=identity(index), token=instance["fence"], takeover=takeover)

    def _lease(self, index: int) -> Row:
        if len(self.tables["lease"]) > index and self.tables["lease"][index]["instance_id"] == identity(index):
            return self.tables["lease"][index]
        return self.row("lease", index)

    def intend(self, index: int, step_id: int, attempt: int = 1) -> Row:
        """Commit an intent."""
        token = self.tables["instance"][index]["fence"]
        intent = {**self._place(index, step_id, attempt), "token": token, "outcome": None, "doubted_token": None}
        self.tables["intent"].append(intent)
        return intent

    def _place(self, index: int, step_id: int, attempt: int) -> Row:
        return {"instance_id": identity(index), "scope": "", "step_id": step_id, "attempt": attempt}

    def apply(self, process: str, index: int, step_id: int, attempt: int = 1, token: int | None = None) -> None:
        """Let an effect happen, in the place where this arm's effects are recorded."""
        pid = self.pids[process]
        token = self.tables["instance"][index]["fence"] if token is None else token
        place = {**self._place(index, step_id, attempt), "token": token, "pid": pid}
        if self.effect == "transactional":
            self.tables["ledger"].append({**place, "t_us": self.now() // 1000})
            return
        record = {"t": self.now(), "process": process, **place, "kind": "do", "key": f"{identity(index)}//{step_id}"}
        if not self.journal:
            record["token"] = None
        if self.effect == "at_most_once":
            self.sink.append({**record, "seq": 0})
            return
        self._seqs[process] = self._seqs.get(process, 0) + 1
        self.witness.append({**record, "seq": self._seqs[process]})

    def commit(self, index: int, step_id: int, attempt: int = 1, outcome: str = "Success") -> None:
        """Commit a row."""
        instance = self.tables["instance"][index]
        number = {"sequence": instance["next_sequence"], "token": instance["fence"], "outcome": outcome}
        result = f'{{"step": {step_id}}}' if outcome == "Success" else '{"message": "by design"}'
        self.tables["step"].append({**self._place(index, step_id, attempt), **number, "result": result})
        instance["next_sequence"] += 1

    def step(self, process: str, index: int, step_id: int) -> None:
        """Do a whole step."""
        intent = self.intend(index, step_id) if self.effect == "at_most_once" else None
        self.apply(process, index, step_id)
        self.commit(index, step_id)
        if intent:
            intent["outcome"] = "committed"

    def finish(self, process: str, index: int, state: str = "Completed") -> None:
        """End an instance."""
        instance = self.tables["instance"][index]
        instance["state"] = state
        del self._wakes[identity(index)]
        self.event(process, "finished", instance_id=identity(index), token=instance["fence"], state=state)

    def run(self, process: str, index: int, first: int = 1) -> None:
        """Do an instance's steps from ``first`` on, and end it."""
        for step_id in range(first, 4):
            self.step(process, index, step_id)
        self.finish(process, index)

    def kill(self, process: str, index: int | None, step_id: int, boundary: str = "") -> None:
        """Schedule a kill, and let the node die of it."""
        where = boundary or BOUNDARIES[self.position]
        kill_id = f"k{len(self.receipts) + 1:04d}"
        instance_id = None if index is None else identity(index)
        token = 0 if index is None else self.tables["instance"][index]["fence"]
        planned = {"kill_id": kill_id, "instance_id": instance_id, "step_id": step_id, "boundary": where}
        self.schedule.append({**planned, "position": self.position, "token_min": 0, "role": None})
        self.spec["kills_planned"] += 1
        pid = self.pids[process]
        who = {"t": self.now(), "process": process, "pid": pid, "start_time": 5000 + pid}
        self.receipts.append({**planned, **who, "scope": "", "attempt": 1, "token": token})
        self.event(process, "node.struck")
        self.reap(process, -9)

    def close(self) -> None:
        """End every node that still lives, and leave the wakes that are left."""
        dead = {event["child"] for event in self.history if event["event"] == "process.exited"}
        for process in sorted(self.pids.keys() - dead):
            self.reap(process)
        self.tables["wake"] += self._wakes.values()

    def write(self, root: Path) -> None:
        """Write the arm under ``root``, with everything that the story did not care to tell."""
        complete(self)
        base = root / "arms" / self.spec["name"]
        for folder in ("receipts", "history", "witness", "tables", "logs"):
            (base / folder).mkdir(parents=True)
        (base / "arm.json").write_bytes(orjson.dumps(self.spec))
        (base / "schedule.json").write_bytes(orjson.dumps(self.schedule))
        for receipt in self.receipts:
            (base / "receipts" / f"{receipt['kill_id']}.json").write_bytes(orjson.dumps(receipt))
        write_csv(base / "instances.csv", "instances", self.instances)
        write_jsonl(base / "history", self.history)
        write_jsonl(base / "witness", self.witness)
        if self.sink:
            lines = [orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in self.sink]
            (base / "witness" / "sink.jsonl").write_bytes(b"".join(lines))
        for name, tail in self.tails.items():
            with (base / name).open("ab") as file:
                file.write(tail)
        names = ["instance", "step", "lease", "wake"] if self.journal else ["instance"]
        names += ["intent"] if self.spec["capabilities"]["intents"] else []
        names += [name for name in ("signal", "session") if self.tables[name]]
        names += ["ledger"] if self.effect == "transactional" and self.journal else []
        for name in names:
            write_csv(base / "tables" / f"{name}.csv", name, self.tables[name])


def write_csv(path: Path, name: str, rows: Iterable[Row]) -> None:
    """Write a table as COPY does: null is nothing."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS[name], restval=None, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(folder: Path, rows: Iterable[Row]) -> None:
    """Write one file a process."""
    files: dict[str, list[bytes]] = {}
    for row in rows:
        files.setdefault(row["process"], []).append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    for process, lines in files.items():
        (folder / f"{process}.jsonl").write_bytes(b"".join(lines))


def _name_instances(base: Path, seed: int, arm: str) -> None:
    """Give each instance the id that a run of this seed gives it."""
    for path in base.rglob("*.*"):
        if path.is_file():
            text = path.read_bytes()
            path.write_bytes(_IDENTITY.sub(lambda found: expected_id(seed, arm, int(found[1])).encode(), text))


def write_bundle(root: Path, *stories: Story, manifest: Mapping[str, Any] | None = None) -> Path:
    """Write and seal a bundle of these arms."""
    root.mkdir(parents=True, exist_ok=True)
    content = {
        "schema": 1,
        "campaign": "test",
        "engine": "ninelives",
        "seed": 7,
        "commit": "0" * 40,
        "dirty": False,
        "started_at": "2026-01-01T00:00:00Z",
        "environment": {"python": "3.11"},
        "settings": {"fsync": "on"},
        "not_applicable": {},
        "arms": [story.spec["name"] for story in stories],
        **(manifest or {}),
    }
    (root / "manifest.json").write_bytes(orjson.dumps(content))
    for story in stories:
        story.spec.setdefault("run", {key: content[key] for key in RUN_KEYS})
        story.write(root)
        _name_instances(root / "arms" / story.spec["name"], content["seed"], story.spec["name"])
    seal(root)
    return root
