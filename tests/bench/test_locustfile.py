"""The Locust file: optional, refuses to run without a database, and runs a flow that a node can run."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tomllib

import pytest
from tests.style.source import TOP

from ninelives.registry import check_runnable
from ninelives_bench.user_flow import user_flow

_FILE = TOP / "benchmarks" / "locustfile.py"


def test_its_flow_has_three_steps_and_can_be_run() -> None:
    check_runnable(user_flow.plan)
    assert [node["kind"] for node in user_flow.plan.describe()["nodes"]] == ["step"] * 3


def test_locust_is_an_extra_of_its_own_which_development_does_not_need() -> None:
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(line.startswith("locust>=") for line in extras["load"])
    assert not any("locust" in line or "load" in line for line in extras["dev"])


def test_nothing_that_is_imported_elsewhere_imports_it() -> None:
    folders = ("runtime", "rig", "scenarios", "benchmarks", "reports")
    found = [
        path.name
        for folder in folders
        for path in (TOP / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("locust", "gevent")
    ]
    assert set(found) == {_FILE.name}


@pytest.mark.skipif(importlib.util.find_spec("locust") is None, reason="Locust is not installed here")
def test_without_a_database_it_says_what_to_give() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NINELIVES_DSN"}
    command = [sys.executable, "-m", "locust", "-f", str(_FILE), "--headless", "-u", "1", "-t", "1s"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "NINELIVES_DSN is not set" in done.stderr
