"""Build the wheel by way of the source archive, install it in a fresh environment, and look at what came out.

Checked: only the five names of our own become importable, migrations and SQL files are inside, the runtime
imports with its own dependencies only, and the README's example runs there and prints what the README says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOP = Path(__file__).parents[1]
OURS = ["ninelives", "ninelives_bench", "ninelives_reports", "ninelives_rig", "ninelives_scenarios"]
STEP_TIMEOUT_S = 200

# Runs inside the fresh environment: prints the importable names that no other distribution brought.
_NAMES = """
import importlib.metadata, pkgutil, sysconfig
site = sysconfig.get_paths()["purelib"]
others = set()
for distribution in importlib.metadata.distributions(path=[site]):
    if distribution.metadata["Name"] != "ninelives":
        others |= {file.parts[0].split(".")[0] for file in distribution.files or ()}
print(*sorted({module.name for module in pkgutil.iter_modules([site])} - others))
"""
_DATA = """
import pathlib, ninelives
from ninelives.migrate import migrations_folder
from ninelives.queries import blocks
inside = pathlib.Path(ninelives.__file__).parent
assert migrations_folder() == inside / "migrations", migrations_folder()
assert blocks(), "no SQL block was found"
found = [*(inside / "migrations").glob("*.sql"), *(inside / "sql").glob("*.sql")]
print(*sorted(f"{path.parent.name}/{path.name}" for path in found))
"""


class WheelBad(Exception):
    """The wheel is not what it must be; the text says how."""


def run(*command: str | Path, cwd: Path, dsn: str | None = None) -> str:
    """Run a command and return what it printed; raise WheelBad with its output when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if dsn:
        environment["NINELIVES_DSN"] = dsn
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise WheelBad(f"{command[0]} ... did not end within {STEP_TIMEOUT_S} s") from error
    if done.returncode != 0:
        shown = " ".join(str(part) for part in command)
        raise WheelBad(f"exit code {done.returncode} of: {shown:.200}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(into: Path) -> Path:
    """Build source archive and wheel; return the wheel's path."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, TOP, cwd=TOP)
    wheels = list(into.glob("*.whl"))
    if len(wheels) != 1:
        raise WheelBad(f"expected one wheel, found {[path.name for path in wheels]}")
    return wheels[0]


def install(wheel: Path, into: Path) -> Path:
    """Make a fresh environment with the wheel and the runtime's dependencies; return its interpreter."""
    run(sys.executable, "-m", "venv", into, cwd=into.parent)
    python = into / "bin" / "python"
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--constraint"]
    run(python, "-m", "pip", "install", *options, TOP / "constraints.txt", wheel, cwd=into.parent)
    return python


def check_names(python: Path, empty: Path) -> None:
    """Hold the importable names against our five."""
    found = run(python, "-I", "-c", _NAMES, cwd=empty).split()
    if found != OURS:
        raise WheelBad(f"importable names are {found}, must be {OURS}")
    print(f"wheel-check: importable names: {' '.join(found)}")


def check_data(python: Path, empty: Path) -> None:
    """Hold the SQL files inside the installed package against the checkout's."""
    files = [*(TOP / "migrations").glob("*.sql"), *(TOP / "runtime" / "ninelives" / "sql").glob("*.sql")]
    expected = sorted(f"{path.parent.name}/{path.name}" for path in files)
    found = run(python, "-I", "-c", _DATA, cwd=empty).split()
    if found != expected:
        raise WheelBad(f"SQL files inside are {found}, must be {expected}")
    print(f"wheel-check: {len(found)} SQL files are inside, migrations too")


def readme_example(readme: str) -> tuple[str, str] | None:
    """Return the README's example and the output it shows: the first whole program, and the next text block."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    for position, (language, text) in enumerate(blocks):
        if language.split()[:1] == ["python"] and "asyncio.run(" in text:
            following = [body for kind, body in blocks[position + 1 :] if kind.split()[:1] in ([], ["text"])]
            return text, following[0] if following else ""
    return None


@contextmanager
def database() -> Iterator[str]:
    """Give the dsn of an embedded server that lives for the check."""
    from ninelives_rig.cluster.server import PostgresServer
    from ninelives_rig.rundir import RunDirectory

    with RunDirectory.create() as run_directory, PostgresServer.create(run_directory, name="wheel") as server:
        yield server.dsn


def check_example(python: Path, empty: Path) -> None:
    """Run the README's example in the fresh environment and compare what it prints."""
    example = readme_example((TOP / "README.md").read_text(encoding="utf-8"))
    if example is None:
        print("wheel-check: skipped the README's example: README.md has none yet (a python block with asyncio.run)")
        return
    program, expected = example
    (empty / "example.py").write_text(program, encoding="utf-8")
    with database() as dsn:
        run(python.parent / "ninelives", "migrate", "--dsn", dsn, cwd=empty, dsn=dsn)
        printed = run(python, "example.py", dsn, cwd=empty, dsn=dsn)
    if printed.strip() != expected.strip():
        raise WheelBad(f"the README's example printed\n{printed}\nand the README says\n{expected}")
    print(f"wheel-check: the README's example ran: {printed.strip()!r:.100}")


def main() -> int:
    """Run every check; 0 when the wheel is good, 1 with the reason when it is not."""
    with tempfile.TemporaryDirectory(prefix="ninelives-wheel-") as folder:
        place = Path(folder)
        empty = place / "empty"
        empty.mkdir()
        try:
            wheel = build(place / "dist")
            print(f"wheel-check: built {wheel.name}")
            python = install(wheel, place / "fresh")
            check_names(python, empty)
            check_data(python, empty)
            check_example(python, empty)
        except WheelBad as error:
            print(f"wheel-check: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
