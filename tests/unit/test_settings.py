"""Settings are checked before anything is opened, and a refusal names the setting."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ninelives import SettingRefused, Settings

FLOATS = {"ttl_s", "poll_s", "look_s", "drain_s"}
NAMES = [field.name for field in fields(Settings)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["5", None, True, float("nan"), float("inf"), -1, 10**12, [1]])
def test_what_is_no_number_in_the_bounds_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SettingRefused, match=f"setting {name}: .*give a") as caught:
        Settings(**{name: value})
    assert caught.value.setting == name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FLOATS])
def test_counts_are_whole(name: str) -> None:
    with pytest.raises(SettingRefused, match="whole number"):
        Settings(**{name: 2.5})  # type: ignore[arg-type]  # what is refused here


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("ttl_s", 0.2, 86_400.0), ("in_flight_max", 1, 1_000_000), ("drain_s", 0.0, 86_400.0), ("lanes", 1, 8)],
)
def test_the_bounds_themselves_are_fine(name: str, low: float, high: float) -> None:
    changed: dict[str, Any]
    for value in (low, high):
        changed = {name: value}
        assert getattr(Settings(**changed), name) == value


def test_a_whole_number_of_seconds_is_a_number_of_seconds() -> None:
    assert Settings(ttl_s=30).ttl_ms == 30_000


def test_two_heartbeats_may_be_missed() -> None:
    settings = Settings(ttl_s=0.9)
    assert settings.renew_s * 3 == pytest.approx(settings.ttl_s)
    assert settings.ttl_ms == 900
