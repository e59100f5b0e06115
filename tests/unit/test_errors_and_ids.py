"""Errors keep their facts over a process boundary; ids are what they claim to be."""

from __future__ import annotations

import pickle
import time
import uuid

import pytest

from ninelives import errors, ids

EVERY_ERROR = [
    errors.PlanRefused("order.place 1.2.0, step 'pay'", "change it"),
    errors.PayloadRefused("$.a[1]", "is NaN", "input"),
    errors.InstanceConflict("id-1"),
    errors.InstanceUnknown("id-1"),
    errors.InstanceFinished("id-1"),
    errors.InstanceFailed("id-1", "Failed", {"code": "step.failed", "message": "card refused"}),
    errors.StepFailed("pay", 3, "card refused"),
    errors.StepTimedOut.after("pay", 3, 2.0),
    errors.PermanentError("no such customer"),
    errors.LeaseLost("id-1"),
    errors.StoreUnavailable("no answer from the server in 5 s; check that it runs"),
    errors.SchemaTooNew("ninelives", 9, 3),
    errors.SchemaMissing("ninelives"),
    errors.PlanMismatch("order.place", "1.2.0", "a" * 64, "b" * 64),
    errors.SettingRefused("ttl_s", "must be above 0"),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_error_survives_pickling_with_its_facts(error: errors.NinelivesError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_codes_are_unique_and_every_class_is_covered() -> None:
    codes = [error.code for error in EVERY_ERROR]
    assert len(set(codes)) == len(codes)
    public = {
        kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.NinelivesError) and not name.startswith("_")
    }
    assert public - {type(error) for error in EVERY_ERROR} == {errors.NinelivesError}


def test_failed_instance_says_why_and_where_to_look() -> None:
    text = str(errors.InstanceFailed("id-1", "Failed", {"message": "card refused"}))
    assert "card refused" in text
    assert "ninelives show id-1" in text
    assert "no error text" in str(errors.InstanceFailed("id-1", "TimedOut", {}))


def test_a_conflict_is_about_flow_and_input_alone() -> None:
    """A start under another version finds the instance that is there, so the text must not speak of versions."""
    text = str(errors.InstanceConflict("id-1"))
    assert "another flow or input" in text
    assert "version" not in text


def test_uuid7_carries_time_version_and_randomness() -> None:
    made = ids.uuid7(0x0123_4567_89AB, (1 << 74) - 1)
    assert str(made) == "01234567-89ab-7fff-bfff-ffffffffffff"
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert str(ids.uuid7(0, 0)) == "00000000-0000-7000-8000-000000000000"
    assert ids.uuid7(1, (1 << 74) - 1) < ids.uuid7(2, 0)


@pytest.mark.parametrize(("ms", "bits"), [(-1, 0), (1 << 48, 0), (0, -1), (0, 1 << 74)])
def test_uuid7_refuses_what_does_not_fit(ms: int, bits: int) -> None:
    with pytest.raises(ValueError, match="must be in"):
        ids.uuid7(ms, bits)


def test_new_instance_ids_are_distinct_and_near_now() -> None:
    made = {ids.new_instance_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(one.version == 7 for one in made)
    now_ms = time.time_ns() // 1_000_000
    assert all(abs((one.int >> 80) - now_ms) < 60_000 for one in made)


def test_derived_id_is_fixed_for_ever() -> None:
    # A changed namespace would start every business key a second time.
    assert str(ids.instance_id_for("order-42")) == "0c68b823-9ad3-5557-b988-bbbfe73d9ac6"
    assert ids.instance_id_for("order-42") != ids.instance_id_for("order-43")
    for refused in ("", "\ud800"):
        with pytest.raises(ValueError):
            ids.instance_id_for(refused)
