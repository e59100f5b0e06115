"""What is committed of one instance: fed with journal rows, compacted to a snapshot, asked by the decider."""

from __future__ import annotations

from typing import Any

import orjson

from . import codec
from .errors import PayloadRefused
from .progress import Progress
from .ranges import Ranges

SNAPSHOT_VERSION = 1

_Key = tuple[str, int]


class Unread(BaseException):
    """A result that is in the journal and was not read with the snapshot: read it, and ask again.

    Not an Exception: a selector that catches those must not take it for an answer.
    """

    def __init__(self, scope: str, step_id: int) -> None:
        super().__init__(scope, step_id)
        self.key = (scope, step_id)


class StepRow:
    """One committed attempt of a step.

    `outcome` is Success, Failure or Compensated; `result` the result (bytes: still encoded), or the error of a failure;
    `nondeterministic` what the attempt captured; `retry_in_ms` what is left of the delay before the next attempt.
    """

    __slots__ = (
        "attempt", "nondeterministic", "outcome", "result", "retry_in_ms", "scope", "sequence", "step_id",
    )  # fmt: skip

    def __init__(
        self,
        scope: str,
        step_id: int,
        attempt: int,
        sequence: int,
        outcome: str,
        result: Any = None,
        nondeterministic: dict[str, Any] | None = None,
        retry_in_ms: int | None = None,
    ) -> None:
        self.scope = scope
        self.step_id = step_id
        self.attempt = attempt
        self.sequence = sequence
        self.outcome = outcome
        self.result = result
        self.nondeterministic = nondeterministic
        self.retry_in_ms = retry_in_ms

    def __repr__(self) -> str:
        return f"<row {self.sequence}: {self.scope!r}/{self.step_id} attempt {self.attempt} {self.outcome}>"


class IntentRow:
    """One intent of an at-most-once step; `outcome` is None (open), committed, done or voided."""

    __slots__ = ("attempt", "outcome", "scope", "step_id", "token")

    def __init__(self, scope: str, step_id: int, attempt: int, token: int, outcome: str | None = None) -> None:
        self.scope = scope
        self.step_id = step_id
        self.attempt = attempt
        self.token = token
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<intent {self.scope!r}/{self.step_id} attempt {self.attempt} token {self.token} {self.outcome}>"


class OpenRow:
    """Something outside that a step waits for: `kind` is wait, child or task, `facts` a JSON object about it."""

    __slots__ = ("facts", "kind", "scope", "step_id")

    def __init__(self, scope: str, step_id: int, kind: str, facts: dict[str, Any]) -> None:
        self.scope = scope
        self.step_id = step_id
        self.kind = kind
        self.facts = facts


class Trouble:
    """What went before the next attempt of an unfinished step (or of its undo)."""

    __slots__ = ("error", "failed", "intent", "nondeterministic", "retry_in_ms", "voided")

    def __init__(self) -> None:
        self.failed = Ranges()
        self.voided = Ranges()
        self.error: Any = None
        self.nondeterministic: dict[str, Any] | None = None
        self.retry_in_ms: int | None = None
        self.intent: IntentRow | None = None

    @property
    def attempt(self) -> int:
        """The last attempt that is settled, by a failure row or a void; 0 for none."""
        return max(self.failed.last, self.voided.last)

    @property
    def open_intent(self) -> IntentRow | None:
        """The intent of the coming attempt when one exists already: somebody may have run it."""
        intent = self.intent
        return intent if intent is not None and intent.attempt > self.attempt else None

    def dump(self, key: _Key) -> list[Any]:
        """Return a JSON value for `load`. Not the delay: a stored one would start anew at every resume."""
        intent = self.intent
        return [
            *key,
            self.failed.dump(),
            self.voided.dump(),
            self.error,
            self.nondeterministic,
            None if intent is None else [intent.attempt, intent.token, intent.outcome],
        ]

    @classmethod
    def load(cls, dumped: list[Any]) -> tuple[_Key, Trouble]:
        """Rebuild from `dump`."""
        scope, step_id, failed, voided, error, nondeterministic, intent = dumped
        trouble = cls()
        trouble.failed = Ranges(failed)
        trouble.voided = Ranges(voided)
        trouble.error = error
        trouble.nondeterministic = nondeterministic
        trouble.intent = None if intent is None else IntentRow(scope, step_id, *intent)
        return (scope, step_id), trouble


class Frontier:
    """The committed state of one instance. Applying a row twice changes nothing; rows come in sequence order.

    `done_to` is the number of leading steps of the flow itself that are done. Results and the input are JSON values
    or still encoded (bytes); whoever asks gets a copy.
    """

    __slots__ = (
        "_attempts", "_done", "_iterations", "_open", "_results", "_root_results", "_undo_troubles", "_undone",
        "done_to", "input", "troubles",
    )  # fmt: skip

    def __init__(self, input: Any) -> None:
        self.input = input
        self.done_to = 0
        self.troubles: dict[_Key, Trouble] = {}
        self._done = Progress()
        self._undone = Progress()
        self._root_results: dict[int, Any] = {}
        self._results: dict[str, dict[int, Any]] = {"": self._root_results}
        self._undo_troubles: dict[_Key, Trouble] = {}
        self._attempts: dict[_Key, int] = {}
        self._iterations: dict[str, int] = {}
        self._open: dict[_Key, OpenRow] = {}

    # Feeding it

    def apply(self, row: StepRow) -> None:
        """Take in a committed row. Raises ValueError for an outcome it does not know."""
        scope, step_id, outcome = row.scope, row.step_id, row.outcome
        if outcome == "Success":
            self.succeed(scope, step_id, row.attempt, row.result)
            return
        if "#" in scope and not self._enter_iterations(scope):
            return
        if outcome == "Failure":
            self._fail(row)
        elif outcome == "Compensated":
            self._undone.add(scope, step_id)
            self._undo_troubles.pop((scope, step_id), None)
        else:
            raise ValueError(f"{row!r}: the outcome must be Success, Failure or Compensated")

    def succeed(self, scope: str, step_id: int, attempt: int, result: Any) -> None:
        """Take in the success of a step; `result` is a JSON value, or one still encoded (bytes)."""
        if scope:
            if "#" in scope and not self._enter_iterations(scope):
                return
            self._done.add(scope, step_id)
            self._results.setdefault(scope, {})[step_id] = result
        else:
            root = self._done.root
            root.add(step_id)
            self.done_to = root.leading
            self._root_results[step_id] = result
        if attempt != 1:
            self._attempts[scope, step_id] = attempt
        if self.troubles:
            self.troubles.pop((scope, step_id), None)
        if self._open:
            self._open.pop((scope, step_id), None)

    def _fail(self, row: StepRow) -> None:
        trouble = self._trouble_of(row.scope, row.step_id, row.attempt)
        if trouble is None:
            return
        if row.attempt >= trouble.failed.last:
            trouble.error = row.result
            trouble.retry_in_ms = row.retry_in_ms
        if trouble.failed.add(row.attempt) and row.nondeterministic is not None:
            trouble.nondeterministic = {**(trouble.nondeterministic or {}), **row.nondeterministic}

    def apply_intent(self, row: IntentRow) -> None:
        """Take in an intent, in any order with the rows; settled ones of finished attempts change nothing.

        The holder must not apply the intent it has just written for its own running attempt: met here, an open
        intent is somebody else's.
        """
        if "#" in row.scope and not self._enter_iterations(row.scope):
            return
        trouble = self._trouble_of(row.scope, row.step_id, row.attempt)
        if trouble is None:
            return
        if row.outcome == "voided":
            trouble.voided.add(row.attempt)
        if trouble.intent is None or row.attempt >= trouble.intent.attempt:
            trouble.intent = row

    def apply_open(self, row: OpenRow) -> None:
        """Take in something a step waits for; the step's own row closes it."""
        if ("#" not in row.scope or self._enter_iterations(row.scope)) and not self.is_done(row.scope, row.step_id):
            self._open[row.scope, row.step_id] = row

    def _trouble_of(self, scope: str, step_id: int, attempt: int) -> Trouble | None:
        """Return where an attempt's trouble belongs: forward, undo (past the forward row's attempt) or nowhere."""
        key = (scope, step_id)
        troubles = self.troubles
        if key in self._done:
            if attempt <= self._attempts.get(key, 1) or key in self._undone:
                return None
            troubles = self._undo_troubles
        trouble = troubles.get(key)
        if trouble is None:
            trouble = troubles[key] = Trouble()
        return trouble

    def _enter_iterations(self, scope: str) -> bool:
        """Move loops on to the scope's iterations and forget what earlier ones held; False for an earlier one."""
        for family, index in _iterations_of(scope):
            current = self._iterations.get(family, 0)
            if index < current:
                return False
            if index > current:
                self._iterations[family] = index
                if current:
                    self._forget(f"{family}{current}")
        return True

    def _forget(self, prefix: str) -> None:
        inside = prefix + "/"
        for scoped in [scope for scope in self._results if scope == prefix or scope.startswith(inside)]:
            del self._results[scoped]
        for keyed in (self.troubles, self._undo_troubles, self._attempts, self._open):
            for key in [key for key in keyed if key[0] == prefix or key[0].startswith(inside)]:
                del keyed[key]
        for family in [family for family in self._iterations if family.startswith(inside)]:
            del self._iterations[family]
        self._done.forget(prefix)
        self._undone.forget(prefix)

    # Asking it

    def is_done(self, scope: str, step_id: int) -> bool:
        """Tell whether a step has its success row, or lies in an iteration that is over."""
        if not scope:
            return step_id in self._done.root
        return self._is_over(scope) or (scope, step_id) in self._done

    def _is_over(self, scope: str) -> bool:
        """Tell whether a scope lies in an iteration that a later one has followed."""
        return "#" in scope and any(index < self._iterations.get(f, 0) for f, index in _iterations_of(scope))

    def is_undone(self, scope: str, step_id: int) -> bool:
        """Tell whether a step has its Compensated row."""
        return (scope, step_id) in self._undone

    def failures(self, scope: str, step_id: int, *, undo: bool = False) -> int:
        """Return how many attempts of an unfinished step (or of its undo) have failed."""
        trouble = self.trouble(scope, step_id, undo=undo)
        return 0 if trouble is None else len(trouble.failed)

    def voids(self, scope: str, step_id: int, *, undo: bool = False) -> int:
        """Return how many intents of an unfinished step (or of its undo) were voided."""
        trouble = self.trouble(scope, step_id, undo=undo)
        return 0 if trouble is None else len(trouble.voided)

    def trouble(self, scope: str, step_id: int, *, undo: bool = False) -> Trouble | None:
        """Return what went before the next attempt, None when nothing did."""
        return (self._undo_troubles if undo else self.troubles).get((scope, step_id))

    def captured(self, scope: str, step_id: int) -> dict[str, Any] | None:
        """Return the clock, ids and seed that failed attempts captured, for the next attempt to replay."""
        trouble = self.troubles.get((scope, step_id))
        return None if trouble is None else trouble.nondeterministic

    def attempt(self, scope: str, step_id: int) -> int:
        """Return the attempt that succeeded (of a step that is done)."""
        return self._attempts.get((scope, step_id), 1)

    def result(self, scope: str, step_id: int) -> Any:
        """Return a copy of a finished step's result.

        Raises KeyError for one not finished or of an older iteration, Unread for one that lies before the snapshot.
        """
        try:
            return codec.fresh(self._results[scope][step_id])
        except KeyError:
            if self._is_over(scope) or not self.is_done(scope, step_id):
                raise
            raise Unread(scope, step_id) from None

    def remember(self, scope: str, step_id: int, result: Any) -> None:
        """Take in the result of a step that was done before the snapshot, read from its row."""
        self._results.setdefault(scope, {}).setdefault(step_id, result)

    def iteration(self, family: str) -> int:
        """Return the latest iteration of a loop that left something (family like `7#`), 0 for none."""
        return self._iterations.get(family, 0)

    def open(self, scope: str, step_id: int) -> OpenRow | None:
        """Return what an unfinished step waits for, None when nothing is known."""
        return self._open.get((scope, step_id))

    # Storing it

    def snapshot(self) -> bytes:
        """Return as compact JSON what is done, failed and open; not the input, delays, or results: they have rows."""
        facts: dict[str, Any] = {"v": SNAPSHOT_VERSION, "d": self._done.dump()}
        if self._attempts:
            facts["a"] = [[*key, attempt] for key, attempt in self._attempts.items()]
        if self.troubles:
            facts["t"] = [trouble.dump(key) for key, trouble in self.troubles.items()]
        if self._undone.root or self._undone.families:
            facts["u"] = self._undone.dump()
        if self._undo_troubles:
            facts["ut"] = [trouble.dump(key) for key, trouble in self._undo_troubles.items()]
        if self._iterations:
            facts["l"] = self._iterations
        if self._open:
            facts["o"] = [[*key, row.kind, row.facts] for key, row in self._open.items()]
        return orjson.dumps(facts)

    @classmethod
    def restore(cls, input: Any, frontier: bytes | str | None) -> Frontier:
        """Rebuild from a snapshot (None: nothing was stored), to which later rows are then applied.

        Raises PayloadRefused when it is not a snapshot that this release can read.
        """
        made = cls(input)
        if frontier is None:
            return made
        try:
            made._load(orjson.loads(frontier))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise _unreadable(error) from None
        return made

    def _load(self, facts: dict[str, Any]) -> None:
        if facts["v"] != SNAPSHOT_VERSION:
            raise ValueError(f"version {facts['v']}, this release reads {SNAPSHOT_VERSION}")
        self._done = Progress.load(facts["d"])
        self.done_to = self._done.root.leading
        self._attempts = {(scope, step_id): attempt for scope, step_id, attempt in facts.get("a", ())}
        self.troubles = dict(map(Trouble.load, facts.get("t", ())))
        if "u" in facts:
            self._undone = Progress.load(facts["u"])
        self._undo_troubles = dict(map(Trouble.load, facts.get("ut", ())))
        self._iterations = facts.get("l", {})
        self._open = {(row[0], row[1]): OpenRow(*row) for row in facts.get("o", ())}


def _unreadable(error: Exception) -> PayloadRefused:
    reason = f"not a snapshot of this release ({error}); resume with the release that wrote it"
    return PayloadRefused("$", reason, "frontier")


def _iterations_of(scope: str) -> list[tuple[str, int]]:
    """Return family and index of every loop iteration a scope lies in, outermost first."""
    found = []
    sign = scope.find("#")
    while sign >= 0:
        end = scope.find("/", sign)
        found.append((scope[: sign + 1], int(scope[sign + 1 : end if end >= 0 else None])))
        sign = scope.find("#", sign + 1)
    return found
