"""What an arm's evidence says, derived once for all checkers: effects, claims, deaths, who held what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from ninelives_rig.checkers.accounting import classify
from ninelives_rig.evidence.bundle import Arm
from ninelives_rig.evidence.spec import FAULT_EVENTS, ArmSpec

TERMINAL = frozenset({"Completed", "Failed", "TimedOut", "CompensationFailed", "Terminated"})
SIGKILL = -9
STEP_KEY = ["instance_id", "scope", "step_id"]
ATTEMPT_KEY = [*STEP_KEY, "attempt"]
# A witness line of kind "repeat" is a request that a sink with keys had already applied: the body ran again.
EFFECT_KINDS = ("do", "repeat")
_SINGLED_OUT = tuple(FAULT_EVENTS[name].begun for name in ("freeze", "bury", "starve", "cut", "deafen", "delay"))
_OF_THE_SERVER = tuple(
    FAULT_EVENTS[name].begun
    for name in ("crash", "restart", "freeze-server", "read-only", "impatient", "end-backends", "take-connections")
)
_EFFECT_COLUMNS = ["t", "pid", *ATTEMPT_KEY, "token"]


@dataclass(frozen=True)
class Kill:
    """One receipt. ``proved`` says that this very process was reaped with SIGKILL; ``role`` is its role."""

    kill_id: str
    t: int
    pid: int
    start_time: int
    instance_id: str | None
    step_id: int
    attempt: int
    token: int
    scope: str
    boundary: str
    role: str
    proved: bool


@dataclass(frozen=True)
class Fault:
    """A fault that the coordinator inflicted; ``pid`` is 0 for the server's, ``over_t`` None for one over at once."""

    kill_id: str
    t: int
    pid: int
    over_t: int | None


class Facts:
    """Derived views of one arm's evidence, each computed at most once. No view changes the evidence."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.spec: ArmSpec = arm.spec

    @cached_property
    def effects(self) -> pd.DataFrame:
        """Every effect, in the order of time: ``t`` in ns, pid, step key, attempt, token (0 without
        tokens).
        """
        if self.spec.effect == "transactional" and "ledger" in self.arm.tables:
            effects = self.arm.tables["ledger"].assign(t=lambda rows: rows["t_us"] * 1000)
        else:
            witness = self.arm.witness
            effects = witness[witness["kind"].isna() | witness["kind"].isin(EFFECT_KINDS)]
            if len(self.arm.sink):
                identity = [*ATTEMPT_KEY, "token", "pid"]
                seen = pd.MultiIndex.from_frame(effects[identity])
                unseen = ~pd.MultiIndex.from_frame(self.arm.sink[identity]).isin(seen)
                effects = pd.concat([effects, self.arm.sink[unseen]])
        return _tokened(effects[_EFFECT_COLUMNS]).sort_values("t", kind="stable", ignore_index=True)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The committed journal rows, in commit order of each instance; empty without a journal."""
        step = self.arm.tables.get("step")
        if step is None:
            columns = [*ATTEMPT_KEY, "sequence", "token", "outcome"]
            return pd.DataFrame({name: pd.Series(dtype="object") for name in columns})
        return _tokened(step).sort_values(["instance_id", "sequence"], kind="stable", ignore_index=True)

    @cached_property
    def successes(self) -> pd.DataFrame:
        """The journal rows of completed steps."""
        return self.rows[self.rows["outcome"] == "Success"]

    @cached_property
    def effective(self) -> pd.DataFrame:
        """The successes of steps that have an effect: a wait for a signal has none."""
        return self.successes[~self.successes["step_id"].isin(self.spec.waits)]

    @cached_property
    def classified(self) -> pd.DataFrame:
        """``effects`` with ``class`` (see ``accounting``), ``overlap`` and ``zombie``."""
        return classify(
            self.spec, self.effects.assign(thawed=self.after_freeze(self.effects)), self.rows, self.issues, self.death_t
        )

    @cached_property
    def states(self) -> Mapping[str, str]:
        """The final state of every instance that has a row."""
        table = self.arm.tables["instance"]
        return dict(zip(table["instance_id"], table["state"], strict=True))

    @cached_property
    def registered(self) -> frozenset[str]:
        """The ids that were written down before any worker existed."""
        return frozenset(self.arm.instances["instance_id"])

    def events(self, *names: str) -> pd.DataFrame:
        """The history's events of these names."""
        return self.arm.history[self.arm.history["event"].isin(names)]

    @cached_property
    def claims(self) -> pd.DataFrame:
        """Claims that a node saw answered, in the order of time."""
        claims = self.events("claimed")
        claims = claims[claims["instance_id"].notna()]
        return _tokened(claims).sort_values("t", kind="stable", ignore_index=True)

    @cached_property
    def node_starts(self) -> pd.DataFrame:
        """Starts acknowledged to a node; a start folded with its claim makes the node the holder."""
        starts = self.events("start.ok")
        return _tokened(starts[starts["pid"].isin(self.roles.keys())])

    @cached_property
    def finishes(self) -> pd.DataFrame:
        """Ends that a node saw acknowledged, in the order of time."""
        return _tokened(self.events("finished")).sort_values("t", kind="stable", ignore_index=True)

    @cached_property
    def holds(self) -> frozenset[tuple[str, int, int]]:
        """Which process was seen to claim which instance under which token: ``(instance_id, token, pid)``."""
        return frozenset(zip(self.claims["instance_id"], self.claims["token"], self.claims["pid"], strict=True))

    @cached_property
    def issues(self) -> pd.DataFrame:
        """When each token of each instance is first known to have been issued: ``instance_id, token, t``."""
        seen = pd.concat([frame[["instance_id", "token", "t"]] for frame in (self.claims, self.effects)])
        return seen.groupby(["instance_id", "token"])["t"].min().reset_index()

    @cached_property
    def possession(self) -> pd.DataFrame:
        """Who was seen to hold what: claims and starts by nodes, effects, receipts; the newest token last."""
        columns = ["instance_id", "t", "pid", "token"]
        receipts = pd.DataFrame(
            [(kill.instance_id, kill.t, kill.pid, kill.token) for kill in self.kills if kill.instance_id],
            columns=columns,
        ).astype({"instance_id": "object", "t": "int64", "pid": "int64", "token": "int64"})
        # Where leases have tokens, only a claim makes a holder: a start may have left the instance to others.
        starts = self.node_starts.iloc[:0] if self.spec.tokens else self.node_starts
        frames = [self.claims[columns], starts[columns], self.effects[columns], receipts]
        return pd.concat(frames).sort_values(["token", "t"], kind="stable", ignore_index=True)

    @cached_property
    def last_holder(self) -> Mapping[str, int]:
        """The pid that was last seen to hold each instance."""
        last = self.possession.drop_duplicates("instance_id", keep="last")
        return dict(zip(last["instance_id"], last["pid"].astype(int), strict=True))

    def was_killed(self, pid: int | None) -> bool:
        """Whether a proved kill ended this process."""
        return any(kill.pid == pid and kill.proved for kill in self.kills)

    @cached_property
    def exits(self) -> Mapping[tuple[int, int], int]:
        """Exit code of every reaped node by pid and start time (negative: the signal)."""
        exits = self.events("process.exited")
        exits = exits.dropna(subset=["child_pid", "child_start_time", "exitcode"])
        keys = zip(exits["child_pid"], exits["child_start_time"], strict=True)
        return {(int(pid), int(start)): int(code) for (pid, start), code in zip(keys, exits["exitcode"], strict=True)}

    @cached_property
    def starts(self) -> pd.DataFrame:
        """Nodes that the coordinator started."""
        started = self.events("process.started")
        return started.dropna(subset=["child", "child_pid", "child_start_time"])

    @cached_property
    def roles(self) -> Mapping[int, str]:
        """The role of every node by pid."""
        pairs = zip(self.starts["child_pid"], self.starts["role"], strict=True)
        return {int(pid): str(role) for pid, role in pairs}

    @cached_property
    def death_t(self) -> Mapping[int, int]:
        """When each node is known to have been dead: its receipt's time, else when it was reaped."""
        exits = self.events("process.exited").dropna(subset=["child_pid"])
        deaths = {int(pid): int(t) for pid, t in zip(exits["child_pid"], exits["t"], strict=True)}
        return deaths | {kill.pid: kill.t for kill in self.kills if kill.proved}

    @cached_property
    def frozen_t(self) -> Mapping[int, int]:
        """When each node that was stopped, cut off or declared dead while it lived was first dealt with, by pid."""
        frozen = self.events(*_SINGLED_OUT).dropna(subset=["child_pid"])
        troubled = {int(str(pid)): int(t) for pid, t in frozen.groupby("child_pid")["t"].min().items()}
        of_all = self.events(*_OF_THE_SERVER)["t"]
        if len(of_all):
            # A server that is away cuts every node off that lives then, or comes until it is back.
            for pid in self.roles:
                troubled[pid] = min(troubled.get(pid, int(of_all.min())), int(of_all.min()))
        return troubled

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """Every fault of the coordinator, in the order of time, with the end that belongs to it."""
        found = []
        for told in FAULT_EVENTS.values():
            over = self.events(told.over) if told.over else None
            for row in self.events(told.begun).to_dict("records"):
                pid = 0 if pd.isna(row["child_pid"]) or told.begun in _OF_THE_SERVER else int(row["child_pid"])
                over_t = None
                if over is not None:
                    later = over[(over["t"] > row["t"]) & ((over["child_pid"] == pid) if pid else True)]
                    over_t = int(later["t"].min()) if len(later) else None
                found.append(Fault(told.begun, int(row["t"]), pid, over_t))
        return tuple(sorted(found, key=lambda fault: fault.t))

    def after_freeze(self, frame: pd.DataFrame) -> pd.Series[bool]:
        """Say of each row whether its process had been stopped or buried before: it may not know yet what it missed."""
        return frame["t"] > frame["pid"].map(lambda pid: self.frozen_t.get(pid, math.inf))

    @cached_property
    def kills(self) -> tuple[Kill, ...]:
        """Every receipt, in the order of time."""
        frame = self.arm.receipts.sort_values("t", kind="stable")
        kills = []
        for row in frame.to_dict("records"):
            pid, start_time = int(row["pid"]), int(row["start_time"])
            numbers = {name: 0 if pd.isna(row[name]) else int(row[name]) for name in ("step_id", "attempt", "token")}
            kills.append(
                Kill(
                    kill_id=str(row["kill_id"]),
                    t=int(row["t"]),
                    pid=pid,
                    start_time=start_time,
                    instance_id=row["instance_id"] if isinstance(row["instance_id"], str) else None,
                    scope=str(row["scope"]),
                    boundary=str(row["boundary"]),
                    role=self.roles.get(pid, "unknown"),
                    proved=self.exits.get((pid, start_time)) == SIGKILL,
                    **numbers,
                )
            )
        return tuple(kills)

    @cached_property
    def witness_gaps(self) -> tuple[str, ...]:
        """Witness files whose sequence is not 1, 2, 3 ...: lines were lost, or written twice."""
        gaps = []
        for (process, pid), seqs in self.arm.witness.groupby(["process", "pid"])["seq"]:
            found = sorted(int(seq) for seq in seqs.dropna())
            if found != list(range(1, len(seqs) + 1)):
                missing = sorted(set(range(1, max(found, default=0) + 1)) - set(found))
                detail = f"no line {missing[0]}" if missing else "a number twice or none"
                gaps.append(f"process {process} (pid {pid}) wrote {len(seqs)} lines and has {detail}")
        return tuple(gaps)

    @cached_property
    def evidence_lost(self) -> bool:
        """Whether evidence is known to be missing, so that an absence proves nothing."""
        return bool(self.arm.damage or self.witness_gaps)

    @cached_property
    def still_progressing(self) -> bool:
        """Whether time ran out while instances still ended, so that an unfinished one proves nothing."""
        return not self.spec.converged and self.spec.progressing


def _tokened(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with ``token`` as plain integers, 0 where there is none."""
    return frame.assign(token=frame["token"].fillna(0).astype("int64"))


def show(row: Mapping[Any, Any], *names: str) -> str:
    """Write some fields of a row as ``name=value``: an evidence line."""
    return " ".join(f"{name}={row[name]}" for name in names)


def show_all(frame: pd.DataFrame, *names: str, limit: int = 5) -> tuple[str, ...]:
    """Write the first rows of a frame as evidence lines."""
    return tuple(show(row, *names) for row in frame.head(limit).to_dict("records"))
