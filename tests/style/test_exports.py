"""The public names of `ninelives` are a documented list: adding or removing one is a decision made here."""

from __future__ import annotations

import inspect
import types

import ninelives

PUBLIC = [
    "AtMostOnce",
    "Branch",
    "Call",
    "Capability",
    "Case",
    "Client",
    "Done",
    "Flow",
    "Handle",
    "Idempotent",
    "InstanceConflict",
    "InstanceFailed",
    "InstanceFinished",
    "InstanceUnknown",
    "LeaseLost",
    "NinelivesError",
    "Node",
    "PayloadRefused",
    "PermanentError",
    "PlanMismatch",
    "PlanRefused",
    "RetryPolicy",
    "SchemaMissing",
    "SchemaTooNew",
    "SettingRefused",
    "Settings",
    "State",
    "StepTimedOut",
    "StoreUnavailable",
    "Transactional",
    "Unknown",
    "Voided",
    "capability",
    "connect",
    "instance_id_for",
    "migrate",
]


def export_problems(module: types.ModuleType, public: list[str]) -> list[str]:
    exported = list(getattr(module, "__all__", []))
    problems = [f"{name} is exported but not listed" for name in exported if name not in public]
    problems += [f"{name} is listed but not exported" for name in public if name not in exported]
    problems += [f"{name} does not exist" for name in exported if not hasattr(module, name)]
    if exported != sorted(exported):
        problems.append("__all__ is not sorted")
    for name in exported:
        value = getattr(module, name, None)
        if inspect.isclass(value) or inspect.isroutine(value):
            # A class's docstring must be its own: an inherited one says what its base is.
            own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
            generated = inspect.isclass(value) and own is not None and own.startswith(f"{value.__name__}(")
            if not own or generated:
                problems.append(f"{name} has no docstring")
    return problems


def test_public_names_equal_the_documented_list() -> None:
    assert export_problems(ninelives, PUBLIC) == []


def test_the_package_says_in_one_line_what_it_is() -> None:
    assert ninelives.__doc__
    assert len(ninelives.__doc__.strip().splitlines()[0]) > 30


def test_each_kind_of_problem_is_seen() -> None:
    class Documented:
        """Documented."""

    class Bare(Documented):
        pass

    module = types.ModuleType("toy")
    module.__dict__.update({"__all__": ["b", "a", "gone"], "a": Bare, "b": Documented})
    assert export_problems(module, ["a", "gone", "c"]) == [
        "b is exported but not listed",
        "c is listed but not exported",
        "gone does not exist",
        "__all__ is not sorted",
        "a has no docstring",
    ]
