"""The errors the runtime raises: a class per condition, a stable code, a message that says what to do."""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar

_ErrorT = TypeVar("_ErrorT", bound="NinelivesError")


def _rebuild(kind: type[_ErrorT], message: str, facts: dict[str, Any]) -> _ErrorT:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(facts)
    return error


class NinelivesError(Exception):
    """Base of every error of this package.

    `code` is stable and meant for machines (`instance.conflict`); the message is meant for people.
    Every subclass survives pickling, so that it can cross a process boundary.
    """

    code: ClassVar[str] = "ninelives.error"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.__dict__)


class PlanRefused(NinelivesError):
    """A flow, capability or registry that cannot run; `place` says where, `reason` what to change."""

    code: ClassVar[str] = "plan.refused"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class PayloadRefused(NinelivesError):
    """A value that cannot be stored without loss; `path` is like `$.lines[3]`, `what` names the payload."""

    code: ClassVar[str] = "payload.refused"

    def __init__(self, path: str, reason: str, what: str = "payload") -> None:
        super().__init__(f"{what}: {path}: {reason}")
        self.path = path
        self.reason = reason
        self.what = what


class _AboutInstance(NinelivesError):
    """An error about one instance; `instance_id` is its id as text."""

    advice: ClassVar[str] = ""

    def __init__(self, instance_id: object, detail: str = "") -> None:
        super().__init__(" ".join(part for part in (f"instance {instance_id}", detail, self.advice) if part))
        self.instance_id = str(instance_id)
        self.detail = detail


class InstanceConflict(_AboutInstance):
    """The id is taken by an instance of another flow or with another input."""

    code: ClassVar[str] = "instance.conflict"
    advice: ClassVar[str] = (
        "already exists with another flow or input; start it with the same ones to get its handle, "
        "or choose another instance_id"
    )


class InstanceUnknown(_AboutInstance):
    """No instance has this id."""

    code: ClassVar[str] = "instance.unknown"
    advice: ClassVar[str] = "does not exist in this schema; check the id, the dsn and the schema name"


class InstanceFinished(_AboutInstance):
    """The instance has ended and takes no further input."""

    code: ClassVar[str] = "instance.finished"
    advice: ClassVar[str] = "has already ended; read its outcome with result() or show()"


class InstanceFailed(_AboutInstance):
    """The instance ended without a result; raised by `handle.result()`.

    `state` is the terminal state, `error` the recorded error.
    """

    code: ClassVar[str] = "instance.failed"

    def __init__(self, instance_id: object, state: str, error: dict[str, Any]) -> None:
        message = error.get("message") or error.get("code") or "no error text was recorded"
        super().__init__(instance_id, f"ended as {state}: {message}; see `ninelives show {instance_id}`")
        self.state = state
        self.error = error


class _AboutStep(NinelivesError):
    def __init__(self, step: str, attempt: int, detail: str) -> None:
        super().__init__(f"step {step!r}, attempt {attempt}: {detail}")
        self.step = step
        self.attempt = attempt
        self.detail = detail


class StepFailed(_AboutStep):
    """An attempt of a step failed; `detail` carries the body's error."""

    code: ClassVar[str] = "step.failed"


class StepTimedOut(_AboutStep):
    """An attempt of a step ran longer than its `timeout_s`."""

    code: ClassVar[str] = "step.timed_out"

    @classmethod
    def after(cls, step: str, attempt: int, timeout_s: float) -> Self:
        """Build the error of an attempt that was cut off after `timeout_s` seconds."""
        return cls(step, attempt, f"timed out after {timeout_s:g} s; raise timeout_s or make the body faster")


class PermanentError(NinelivesError):
    """Raise this in a body when trying again cannot help: the step fails at once, whatever its policy."""

    code: ClassVar[str] = "step.permanent"


class LeaseLost(_AboutInstance):
    """Another node has taken the instance over; this one must stop working on it."""

    code: ClassVar[str] = "lease.lost"
    advice: ClassVar[str] = "is held by another node now; stop, its holder goes on from what was committed"


class StoreUnavailable(NinelivesError):
    """The database cannot be reached or does not answer in time; nothing is known to be lost, try again."""

    code: ClassVar[str] = "store.unavailable"


class SchemaTooNew(NinelivesError):
    """The schema was migrated by a newer release; upgrade this program."""

    code: ClassVar[str] = "schema.too_new"

    def __init__(self, schema: str, found: int, known: int) -> None:
        super().__init__(
            f"schema {schema!r} is at version {found}, this release knows up to {known}; upgrade ninelives"
        )
        self.schema = schema
        self.found = found
        self.known = known


class SchemaMissing(NinelivesError):
    """The schema, or a migration this release needs, is not there; run `ninelives migrate`."""

    code: ClassVar[str] = "schema.missing"

    def __init__(self, schema: str, detail: str = "does not exist") -> None:
        super().__init__(f"schema {schema!r} {detail}; run `ninelives migrate` with the same dsn and schema")
        self.schema = schema
        self.detail = detail


class PlanMismatch(NinelivesError):
    """The version of a flow is registered with another structure; a changed flow needs a new version."""

    code: ClassVar[str] = "plan.mismatch"

    def __init__(self, flow_id: str, version: str, found: str, offered: str) -> None:
        super().__init__(
            f"{flow_id} {version} is registered with fingerprint {found[:12]}, this node has {offered[:12]}; "
            f"give the changed flow a new version"
        )
        self.flow_id = flow_id
        self.version = version
        self.found = found
        self.offered = offered


class SettingRefused(NinelivesError):
    """A setting has a value that cannot work; `setting` names it."""

    code: ClassVar[str] = "setting.refused"

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"setting {setting}: {reason}")
        self.setting = setting
        self.reason = reason
