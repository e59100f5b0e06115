"""What the README shows is what there is: its example, its output, its commands, its links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import TIMEOUT_S, environment

from ninelives.cli import app

TOP = Path(__file__).parents[2]
README = (TOP / "README.md").read_text(encoding="utf-8")
EXAMPLE = TOP / "scenarios" / "ninelives_scenarios" / "order_example.py"


def block(language: str) -> str:
    """The first fenced block of a language."""
    match = re.search(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example_is_the_file_and_short() -> None:
    assert block("python") == EXAMPLE.read_text(encoding="utf-8")
    assert len(block("python").splitlines()) < 40


@pytest.mark.postgres
def test_the_example_prints_what_the_readme_says_every_time(database_dsn: str) -> None:
    for arguments, variables in (([database_dsn], {}), ([], {"NINELIVES_DSN": database_dsn})):
        done = subprocess.run(
            [sys.executable, "-m", "ninelives_scenarios.order_example", *arguments],
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        assert (done.stdout, done.stderr) == (block("text"), "")


def test_the_example_says_in_one_line_that_the_server_is_down() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ninelives_scenarios.order_example", "host=127.0.0.1 port=1 dbname=shop"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the database did not answer")


def test_the_quick_start_is_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in block("sh").splitlines()] == ["make chaos", "make test"]


def test_every_command_and_target_exists() -> None:
    known = {command.name for command in app.registered_commands}
    named = set(re.findall(r"`ninelives (\w+)", README)) | set(re.findall(r"^ninelives (\w+)", README, re.MULTILINE))
    assert named == known
    targets = set(re.findall(r"^([a-z-]+):.*## ", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", README)) <= targets


def test_every_link_and_folder_exists() -> None:
    places = re.findall(r"\]\(([^)#:]+)\)", README) + re.findall(r"^\| `(\w+/)`", README, re.MULTILINE)
    assert len(places) > 4
    assert [place for place in places if not (TOP / place).exists()] == []
