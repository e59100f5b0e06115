"""Whole runs: the negative control fails, the schedule is the seed's, and what cannot be run says so."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from tests.rig.conftest import RunningRig

from ninelives_rig.engines.naive import ENGINE as NAIVE
from ninelives_rig.identity import wait_dead
from ninelives_rig.schedule import draw_instances, draw_kills
from ninelives_scenarios.qr2 import CAMPAIGN as QR2

pytestmark = [pytest.mark.postgres, pytest.mark.chaos, pytest.mark.slow]

Start = Callable[..., RunningRig]


def test_the_naive_engine_fails_and_every_kill_is_proved(start_rig: Start) -> None:
    rig = start_rig("qr2", "--engine", "naive", "--flows", "120", "--kills", "4", "--seed", "7", "--json")
    code, output, errors = rig.finish()
    assert code == 1, errors
    verdict = orjson.loads(output)
    assert (verdict["verdict"], verdict["engine"], verdict["seed"]) == ("FAIL", "naive", 7)
    assert orjson.loads((rig.out / "verdict.json").read_bytes())["verdict"] == "FAIL"
    for arm in verdict["arms"]:
        assert (arm["flows"], arm["kills_proved"], arm["lost"]) == (120, 4, 0)
        assert arm["duplicates"]["against_guarantee"] > 0
    for declared in QR2.scaled(120, 4).arms:
        drawn = draw_kills(declared, NAIVE.capabilities, 7, draw_instances(declared, 7))
        written = orjson.loads((rig.out / "arms" / declared.name / "schedule.json").read_bytes())
        assert written == [kill.as_json() for kill in drawn]
    assert wait_dead(rig.nodes(), 5.0) == [] == rig.run_directories()


def test_the_reference_engine_passes(start_rig: Start) -> None:
    rig = start_rig("isolated", "--flows", "4", "--kills", "1", "--seed", "3", "--json")
    code, output, errors = rig.finish()
    verdict = orjson.loads(output)
    assert (code, verdict["verdict"]) == (0, "PASS"), errors + output
    assert [(arm["name"], arm["kills_proved"]) for arm in verdict["arms"]] == [
        (f"{effect}.{position}", 1)
        for effect in ("idempotent", "at_most_once", "transactional")
        for position in ("before-commit", "after-commit")
    ]


def test_two_runs_side_by_side_do_not_touch_each_other(start_rig: Start) -> None:
    options = ("--engine", "naive", "--flows", "60", "--kills", "2", "--json")
    rigs = [start_rig("qr2", *options, "--seed", seed) for seed in ("1", "2")]
    for rig in rigs:
        code, output, errors = rig.finish()
        assert code == 1, errors
        assert [arm["kills_proved"] for arm in orjson.loads(output)["arms"]] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing",), "no campaign 'nothing'; choose one of"),
        (("qr2", "--engine", "temporal"), "no engine 'temporal'; choose one of naive, reference"),
        (("qr2", "--flows", "5", "--kills", "6"), "more flows or fewer kills"),
        (("boundaries", "--engine", "naive", "--flows", "9", "--kills", "1"), "can run no arm"),
        (("qr2", "--dsn", "host=127.0.0.1 port=1 dbname=x"), "no answer from"),
        (("qr2", "--postgres", "9"), "--postgres 9 is not known"),
    ],
)
def test_what_cannot_be_run_says_why_and_leaves_nothing(
    start_rig: Start, arguments: tuple[str, ...], complaint: str
) -> None:
    rig = start_rig(*arguments)
    code, output, errors = rig.finish()
    assert code == 3
    assert complaint in errors and "Traceback" not in errors, errors
    assert output == ""
    assert rig.run_directories() == []
    assert not (rig.out / "verdict.json").exists()
