"""Kills: each one fires once over all processes, exactly where it is armed, and leaves its receipt."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from uuid import UUID

import pytest
from tests.rig.helpers import finish, start_script

from ninelives_rig.armory import Armory, Bearer, withhold
from ninelives_rig.schedule import Kill

ONE, OTHER = UUID(int=1), UUID(int=2)
BEARER = Bearer("worker-1.1", "worker", 100, 200)

# Each process reaches the boundary of every kill in turn and prints which ones it survived.
DIE = """
import sys
from pathlib import Path
from uuid import UUID
from ninelives_rig.armory import Armory, Bearer
from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.schedule import Kill
me = ProcessIdentity.current()
kills = [Kill(f"k{n}", UUID(int=n), 1, "body.returned", "before-commit") for n in range(1, 4)]
armory = Armory(kills, Path(sys.argv[1]), Bearer(sys.argv[2], "worker", me.pid, me.start_time))


for n in range(1, 4):
    armory.reached("body.returned", UUID(int=n), "", 1, 1, 5)
print("survived", flush=True)
"""


class Deaths:
    """A delivery that counts and kills nobody."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def armory(kills: list[Kill], receipts: Path, deaths: Deaths, bearer: Bearer = BEARER) -> Armory:
    """Arm kills that only count."""
    return Armory(kills, receipts, bearer, deaths)


def test_each_kill_fires_once_over_many_real_processes(tmp_path: Path) -> None:
    names = [f"worker-{number}.1" for number in range(1, 7)]
    processes = [start_script(DIE, tmp_path, name) for name in names]
    ended = dict(zip(names, (finish(process) for process in processes), strict=True))
    receipts = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert set(receipts) == {"k1", "k2", "k3"}
    killed = {name for name, (code, _) in ended.items() if code == -signal.SIGKILL}
    assert killed == {receipt["process"] for receipt in receipts.values()}
    assert len(killed) == 3
    for name in set(names) - killed:
        code, output = ended[name]
        assert code == 0 and output.endswith("survived\n"), f"{name}: {output}"
    for receipt in receipts.values():
        process = processes[names.index(receipt["process"])]
        assert receipt["pid"] == process.pid and receipt["start_time"] > 0 and receipt["t"] > 0
        assert (receipt["boundary"], receipt["step_id"], receipt["attempt"], receipt["token"]) == (
            "body.returned",
            1,
            1,
            5,
        )


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("body.entered", ONE, 2, 9),
        ("body.returned", OTHER, 2, 9),
        ("body.returned", ONE, 1, 9),
        ("body.returned", ONE, 2, 1),
        ("body.returned", None, 2, 9),
    ],
)
def test_nothing_fires_at_another_place(tmp_path: Path, elsewhere: tuple[str, UUID | None, int, int]) -> None:
    deaths = Deaths()
    armed = armory([Kill("k1", ONE, 2, "body.returned", "before-commit", token_min=2)], tmp_path, deaths)
    boundary, instance_id, step_id, token = elsewhere
    armed.reached(boundary, instance_id, "", step_id, 1, token)
    assert deaths.count == 0 and not list(tmp_path.iterdir())
    armed.reached("body.returned", ONE, "", 2, 1, 2)
    armed.reached("body.returned", ONE, "", 2, 1, 3)
    assert deaths.count == 1 and [path.name for path in tmp_path.iterdir()] == ["k1.json"]


def test_two_kills_of_one_instance_fire_at_their_own_places(tmp_path: Path) -> None:
    deaths = Deaths()
    kills = [
        Kill("k1", ONE, 1, "body.returned", "before-commit"),
        Kill("k2", ONE, 0, "claim.committed", "claim.committed", token_min=2),
    ]
    armed = armory(kills, tmp_path, deaths)
    armed.reached("claim.committed", ONE, "", 0, 0, 1)
    armed.reached("body.returned", ONE, "", 1, 1, 1)
    assert deaths.count == 1
    armed.reached("claim.committed", ONE, "", 0, 0, 2)
    assert deaths.count == 2


def test_a_kill_for_any_instance_takes_the_first_that_comes(tmp_path: Path) -> None:
    deaths = Deaths()
    armed = armory([Kill("k1", None, 0, "release.committed", "release.committed")], tmp_path, deaths)
    armed.reached("release.committed", OTHER, "", 0, 0, 3)
    armed.reached("release.committed", ONE, "", 0, 0, 3)
    assert deaths.count == 1
    assert json.loads((tmp_path / "k1.json").read_text())["instance_id"] == str(OTHER)


def test_a_kill_for_another_role_is_not_armed(tmp_path: Path) -> None:
    deaths = Deaths()
    kill = Kill("k1", ONE, 0, "body.entered", "body.entered", role="recovery")
    armory([kill], tmp_path, deaths).reached("body.entered", ONE, "", 1, 1, 1)
    assert deaths.count == 0
    other = Bearer("recovery-1.1", "recovery", 1, 1)
    armory([kill], tmp_path, deaths, other).reached("body.entered", ONE, "", 1, 1, 1)
    assert deaths.count == 1


def test_a_rig_that_withholds_its_kills_still_writes_receipts(tmp_path: Path) -> None:
    armed = Armory([Kill("k1", ONE, 0, "body.entered", "body.entered")], tmp_path, BEARER, withhold)
    armed.reached("body.entered", ONE, "", 1, 1, 1)
    assert (tmp_path / "k1.json").exists()
