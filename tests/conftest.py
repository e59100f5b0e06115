"""What every test gets: the PostgreSQL fixtures, a seed, Hypothesis profiles and a telling header."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.fix_postgres import database_dsn, make_database, postgres_server, run_directory

from ninelives_rig.cluster import binaries
from ninelives_rig.cluster.errors import ClusterError

__all__ = ["database_dsn", "make_database", "postgres_server", "run_directory"]

_TOP = Path(__file__).parent.parent

# A shell lets what it starts in the background ignore Ctrl-C, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: a busy machine is not a failing property. `ci` searches longer and always in the same places.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("dev", deadline=None, max_examples=60, suppress_health_check=_SLOW)
settings.register_profile(
    "ci", deadline=None, max_examples=250, suppress_health_check=_SLOW, derandomize=True, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --seed: the seed of everything random in the rig's tests."""
    parser.addoption("--seed", type=int, default=1, help="seed of everything random in the rig's tests (default 1)")


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is being tested: commit, seed and server version."""
    return f"commit {_commit()}, seed {config.getoption('--seed')}, PostgreSQL {_server_version()}"


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed given with --seed."""
    return int(request.config.getoption("--seed"))


def _commit() -> str:
    try:
        command = ["git", "-C", str(_TOP), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _server_version() -> str:
    try:
        return binaries.find(os.environ.get("NINELIVES_POSTGRES")).full_version()
    except (ClusterError, OSError, subprocess.CalledProcessError):
        return "none (the tests marked postgres will fail)"
