"""The sink: of all who apply or void a key at once, exactly one has its way, and all see the same outcome."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.rig.helpers import finish, start_script

from ninelives_rig.sink import Sink, Voided

KEYS = 200

RACE = """
import json, os, sys, time
from pathlib import Path
from ninelives_rig.sink import Sink, Voided
directory, role, name, parties = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
sink = Sink(directory)
(directory / f"here-{name}").touch()
end = time.monotonic() + 30
while sum(1 for _ in directory.glob("here-*")) < parties:
    assert time.monotonic() < end, "the others did not come"
saw = {}
for number in range(int(sys.argv[5])):
    key = f"instance/7/2/{number}"
    if role == "apply":
        try:
            applied = sink.apply(key, {"by": name, "key": key, "t": number})
            saw[key] = [applied.record["by"], applied.first]
        except Voided:
            saw[key] = ["voided", False]
    else:
        record = sink.void(key)
        saw[key] = ["voided" if record is None else record["by"], False]
print(json.dumps(saw))
"""


def test_racing_processes_agree_on_every_key(tmp_path: Path) -> None:
    parties = [("apply", "a"), ("apply", "b"), ("void", "c")]
    running = [start_script(RACE, tmp_path, role, name, len(parties), KEYS) for role, name in parties]
    ended = [finish(process) for process in running]
    assert all(code == 0 for code, _ in ended), ended
    saws = [json.loads(output) for _, output in ended]
    outcomes: Counter[str] = Counter()
    for number in range(KEYS):
        seen = [saw[f"instance/7/2/{number}"] for saw in saws]
        assert len({outcome for outcome, _ in seen}) == 1, f"key {number}: {seen}"
        first = sum(was_first for _, was_first in seen)
        outcome = seen[0][0]
        outcomes[outcome] += 1
        assert first == (outcome != "voided"), f"key {number}: {seen}"
    held = {str(record["key"]): record["by"] for record in Sink(tmp_path).records()}
    assert len(held) == KEYS - outcomes["voided"]
    assert not list((tmp_path / "drafts").iterdir())


def test_a_key_is_applied_once_and_keeps_its_first_record(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    assert sink.apply("k", {"n": 1}).first
    again = sink.apply("k", {"n": 2})
    assert not again.first and again.record == {"n": 1}
    assert sink.void("k") == {"n": 1} == sink.read("k")


def test_a_voided_key_is_refused_for_ever(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    assert sink.void("k") is None
    for _ in range(2):
        with pytest.raises(Voided, match="use a new key"):
            sink.apply("k", {"n": 1})
    assert sink.read("k") is None and list(sink.records()) == []
    assert sink.apply("k/void1", {"n": 1}).first


def test_keys_with_slashes_and_dots_stay_apart_and_too_long_ones_are_refused(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    keys = ["a/b", "a%2Fb", "a//b", "../a", "."]
    assert all(sink.apply(key, {"key": key}).first for key in keys)
    assert {record["key"] for record in sink.records()} == set(keys)
    with pytest.raises(ValueError, match="too long"):
        sink.apply("x" * 241, {})
