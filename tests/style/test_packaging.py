"""What `make` alone must be able to do: exact pins for everything, a help text that tells all targets."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import re
import subprocess

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.style.source import TOP

_PIN = re.compile(r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[0-9][0-9a-z.]*)(?:; python_version .+)?")
_TARGET = re.compile(r"^([a-z-]+):.*$", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    """Read a constraints file strictly; raise ValueError for a line that is no exact pin."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if lines != sorted(lines):
        raise ValueError("the pins are not sorted")
    found = {}
    for line in lines:
        match = _PIN.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r} is no pin like name==1.2.3")
        found[match["name"]] = match["version"]
    return found


def closure(name: str, extras: frozenset[str]) -> dict[str, str]:
    """Return the installed version of everything that `name` with `extras` needs here, itself left out."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    queue = [(name, extras)]
    while queue:
        asked = queue.pop()
        if asked in seen:
            continue
        seen.add(asked)
        distribution = metadata.distribution(asked[0])
        found[canonicalize_name(asked[0])] = distribution.version
        for text in distribution.requires or ():
            needed = Requirement(text)
            if any(needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in asked[1] | {""}):
                queue.append((needed.name, frozenset(needed.extras)))
    found.pop(canonicalize_name(name))
    return found


def unpinned(needed: dict[str, str], pinned: dict[str, str]) -> list[str]:
    return [f"{name} {version}" for name, version in sorted(needed.items()) if pinned.get(name) != version]


def test_everything_that_is_installed_is_pinned_to_what_is_installed() -> None:
    needed = closure("ninelives", frozenset({"dev"}))
    assert {"psycopg", "pytest", "numpy", "hatchling"} <= set(needed)
    assert unpinned(needed, pins((TOP / "constraints.txt").read_text())) == []


def test_a_missing_and_a_wrong_pin_are_seen() -> None:
    assert unpinned({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3"}) == ["b 2", "c 3"]


def test_loose_pins_and_addresses_are_refused() -> None:
    for line in ("a>=1", "a", "a @ file:///x.whl", "a==1 --hash=sha256:00", "--index-url x", "A_b==1"):
        try:
            pins(line)
        except ValueError as error:
            assert "is no pin" in str(error)
        else:
            raise AssertionError(f"{line} was taken")


def test_make_help_tells_every_target() -> None:
    text = (TOP / "Makefile").read_text()
    targets = {name for name in _TARGET.findall(text) if name != "option"}
    told = subprocess.run(["make", "--no-print-directory", "help"], cwd=TOP, capture_output=True, text=True, check=True)
    assert {line.split()[1] for line in told.stdout.splitlines() if line.startswith("  make ")} == targets
    wanted = "help install chaos sabotage explore test model check ci report wheel-check clean"
    assert targets == {*wanted.split(), "bench", "bench-compare", "bench-publish"}


def test_make_passes_only_what_was_given_and_takes_values_literally() -> None:
    def command(target: str, *variables: str) -> str:
        arguments = ["make", "--dry-run", "--no-print-directory", target, *variables]
        done = subprocess.run(
            arguments, cwd=TOP, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
        )
        return next(line for line in done.stdout.splitlines() if "ninelives-rig" in line).split(";")[0].strip()

    assert command("chaos").split() == [".venv/bin/ninelives-rig", "run", "'qr2'"]
    asked = command(
        "chaos", "FLOWS=500", "KILLS=20", "SEED=7", "OUT=a b", "CAMPAIGN=isolated", "ENGINE=naive", "KEEP=1"
    )
    expected = "run 'isolated' --flows '500' --kills '20' --seed '7' --out 'a b' --engine 'naive' --keep"
    assert " ".join(asked.split()[1:]) == expected
    assert "--keep" not in command("chaos", "KEEP=0")
    assert r"--dsn 'host=x password=it'\''s$5'" in command("chaos", "DSN=host=x password=it's$5")
