"""Whatever a user gets wrong is told in one line, with what to do and the right exit code; never a traceback."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Self

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.cli.command import HERE, TIMEOUT_S, environment, facts, ninelives, node, ok, refused

from ninelives import migrate
from ninelives.cli import loading, options, report
from ninelives.errors import (
    InstanceFinished,
    InstanceUnknown,
    NinelivesError,
    PlanRefused,
    SchemaMissing,
    SettingRefused,
    StoreUnavailable,
)

UNKNOWN_ID = "00000000-0000-4000-8000-00000000dead"


class Silent:
    """A server that takes connections and never says a word."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._callers: list[socket.socket] = []
        self.dsn = f"host=127.0.0.1 port={listener.getsockname()[1]} user=ada dbname=shop"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.close()

    def wait_for_caller(self) -> None:
        """Wait until somebody has connected and asked for something."""
        caller, _ = self._listener.accept()
        caller.recv(1)
        self._callers.append(caller)


@pytest.fixture
def silent() -> Iterator[Silent]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(TIMEOUT_S)
        with Silent(listener) as server:
            yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on; it stays bound, so that nobody else gets it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InstanceFinished("x"), 1),
        (PlanRefused("x", "y"), 1),
        (SchemaMissing("x"), 1),
        (SettingRefused("x", "y"), 2),
        (InstanceUnknown("x"), 3),
        (StoreUnavailable("x"), 4),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: NinelivesError, code: int) -> None:
    assert report.exit_code_of(error) == code


# -- the database


def test_a_server_that_is_down_gives_4_and_never_the_password(closed_port: int) -> None:
    dsn = f"postgresql://ada:s3cr3t-word@127.0.0.1:{closed_port}/shop"
    for command in (("list",), ("migrate",), ("node", "shop:plain")):
        done = ninelives(*command, dsn=dsn)
        assert done.returncode == 4, done
        assert "refused" in done.stderr
        assert "check the dsn" in done.stderr
        assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ada:s3cr3t@word@host/shop",
        "postgresql://ada:s3cr3t%word@host/shop",
        "postgresql://ada:s3cr3t/word@host/shop",
        "postgresql://ada:123/s3cr3t@host/shop",
        "host=localhost password=my s3cr3t",
        "host=localhost port=many password=s3cr3t",
        "s3cr3t",
        "host=localhost password=s3cr3t\udcff",
    ],
)
def test_a_connection_string_that_cannot_be_meant_is_refused_without_quoting_it(dsn: str) -> None:
    with pytest.raises(SettingRefused) as caught:
        options.checked_dsn(dsn)
    assert "s3cr3t" not in str(caught.value)
    assert "word" not in str(caught.value).replace("PASSWORD", "").replace("password", "")


@pytest.mark.parametrize("dsn", ["postgresql://ada:x@host:5432/shop ", " host=host port=5432 user=ada dbname=shop\n"])
def test_blanks_around_a_connection_string_do_not_count(dsn: str) -> None:
    parts = conninfo_to_dict(options.checked_dsn(dsn))
    assert (parts["host"], parts["dbname"], parts["client_encoding"]) == ("host", "shop", "utf8")


@pytest.mark.postgres
def test_the_database_is_found_by_option_variable_and_libpqs_own_variables(database_dsn: str) -> None:
    migrate(database_dsn)
    assert facts("list", dsn=f"{database_dsn} ")["counts"] == {}
    assert facts("list", NINELIVES_DSN=database_dsn)["counts"] == {}
    parts = conninfo_to_dict(database_dsn)
    variables = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    assert facts("list", **{variable: str(parts[name]) for name, variable in variables.items()})["counts"] == {}


@pytest.mark.postgres
def test_a_missing_database_role_or_schema_is_named(database_dsn: str) -> None:
    assert "does not exist" in refused(4, "list", dsn=database_dsn.replace("test_", "gone_"))
    assert "does not exist" in refused(4, "list", dsn=database_dsn.replace("user=postgres", "user=gone"))
    for command in (("list",), ("show", UNKNOWN_ID), ("start", "a.b"), ("node", "shop:plain"), ("pause", UNKNOWN_ID)):
        assert "run `ninelives migrate`" in refused(1, *command, dsn=database_dsn)


@pytest.mark.postgres
def test_migrating_is_told_and_a_newer_schema_is_refused(database_dsn: str) -> None:
    assert "applied 0001_expand_core.sql" in ok("migrate", dsn=database_dsn)
    assert "nothing to do" in ok("migrate", dsn=database_dsn)
    assert facts("migrate", dsn=database_dsn)["applied"] == []
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute("insert into ninelives.schema_version (version, slug) values (9999, 'expand_later')")
    for command in (("migrate",), ("list",), ("node", "shop:plain")):
        assert "upgrade ninelives" in refused(1, *command, dsn=database_dsn)


@pytest.mark.postgres
def test_a_role_that_may_not_read_is_told_what_to_grant(database_dsn: str) -> None:
    migrate(database_dsn)
    role = sql.Identifier(f"stranger_{os.getpid()}")
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(role))
        try:
            dsn = database_dsn.replace("user=postgres", f"user=stranger_{os.getpid()}")
            assert "grant usage" in refused(4, "list", dsn=dsn)
        finally:
            connection.execute(sql.SQL("drop role {}").format(role))


@pytest.mark.postgres
@pytest.mark.parametrize("schema", ["Select", "my-\"app\" 'a' 100% $1 {}", "é" * 31 + "e"])
def test_a_hostile_schema_name_works_and_stays_apart(database_dsn: str, schema: str) -> None:
    ok("migrate", "--schema", schema, dsn=database_dsn)
    assert "does not exist" in refused(1, "list", "--schema", schema[:-1] + "E", dsn=database_dsn)
    with node("plain", dsn=database_dsn, options=("--schema", schema)):
        arguments = ("start", "shop.plain", "--input", "[20, 22]", "--key", schema, "--wait", "--schema", schema)
        assert ok(*arguments, dsn=database_dsn) == "42"
    assert "Completed" in ok("show", "--key", schema, "--schema", schema, dsn=database_dsn)
    assert "does not exist" in refused(1, "list", dsn=database_dsn)


@pytest.mark.parametrize("schema", ["", "pg_mine", "information_schema", "e" * 64, "é" * 32])
def test_a_schema_name_that_cannot_work_is_refused_before_anything_is_created(schema: str) -> None:
    # No server is needed to refuse it.
    assert "setting schema" in refused(2, "migrate", "--schema", schema, dsn="host=/nowhere")


# -- instances


@pytest.mark.postgres
def test_an_unknown_instance_gives_3_and_a_bad_id_2(database_dsn: str) -> None:
    migrate(database_dsn)
    for command in (("show", UNKNOWN_ID), ("show", "--key", "x"), ("pause", UNKNOWN_ID), ("resume", UNKNOWN_ID)):
        assert "does not exist in this schema" in refused(3, *command, dsn=database_dsn)
    assert "does not exist" in refused(3, "rerun", UNKNOWN_ID, "pay", "--yes", dsn=database_dsn)
    done = ninelives("show", UNKNOWN_ID, "--json", dsn=database_dsn)
    assert (done.returncode, '"instance.unknown"' in done.stdout) == (3, True)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("show", "order-1"), "is no UUID"),
        (("show",), "ID or by --key"),
        (("show", UNKNOWN_ID, "--key", "x"), "ID or by --key"),
        (("show", UNKNOWN_ID, "--attempts", "-1"), "setting attempts"),
        (("signal", "12", "go"), "is no UUID"),
        (("signal", UNKNOWN_ID, ""), "NAME is empty"),
        (("start", "a.b", "--id", UNKNOWN_ID, "--key", "x"), "not both"),
        (("start", "a.b", "--key", ""), "--key"),
        (("start", "a.b", "--wait", "--timeout-s", "nan"), "setting timeout_s"),
        (("start", "a.b", "--timeout-s", "3"), "add it"),
        (("list", "--state", "Gone"), "setting state"),
        (("list", "--limit", "0"), "setting limit"),
        (("list", "--limit", "9" * 30), "setting limit"),
        (("migrate", "--wait-s", "inf"), "setting wait_s"),
        *((("node", "shop:plain", "--ttl-s", value), "setting ttl_s") for value in ("nan", "inf", "-inf", "-1", "0")),
        (("node", "shop:plain", "--poll-s", "nan"), "setting poll_s"),
        (("node", "shop:plain", "--drain-s", "-0.5"), "setting drain_s"),
        (("node", "shop:plain", "--in-flight-max", "0"), "setting in_flight_max"),
        (("node", "shop:plain", "--lanes", "9"), "setting lanes"),
        (("node", "shop:plain", "--name", ""), "--name is empty"),
    ],
)
def test_usage_is_refused_with_2_before_a_database_is_asked(command: tuple[str, ...], told: str) -> None:
    assert told in refused(2, *command, dsn="host=/nowhere")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"a": }', "line 1, column 7"),
        ('{\n "a": 1,\n b: 2}', "line 3, column 2"),
        ("", "is empty"),
        ("{'a': 1}", "double quotes"),
        ("[1, NaN]", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("[1e999]", "too large"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' stands twice"),
        ("9" * 5000, "cannot be stored as it is"),
        ("[" * 100_000, "nested too deeply"),
        ("\udcff", "not valid UTF-8 at character 1"),
        ("@/nowhere/input.json", "No such file"),
    ],
)
def test_json_that_cannot_be_read_is_refused_with_its_place(given: str, told: str) -> None:
    with pytest.raises(report.Usage, match=re.escape(told)):
        options.json_value("--input", given)


def test_json_comes_from_a_file_or_standard_input_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1.5, 9007199254740993, "\xc3\xa9"]}')
    assert options.json_value("--input", f"@{path}") == {"a": [1.5, 9007199254740993, "é"]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[null]")))
    assert options.json_value("--input", "-") == [None]
    path.write_bytes(b'"\xff"')
    with pytest.raises(report.Usage, match="not UTF-8 at byte 2"):
        options.json_value("--input", f"@{path}")


@pytest.mark.postgres
def test_a_value_that_cannot_be_stored_is_refused_with_its_path(database_dsn: str) -> None:
    migrate(database_dsn)
    with node("plain", dsn=database_dsn):
        for given, place in (("[1, 18446744073709551616]", "$[1]"), ('{"a": "\\ud800"}', "$.a")):
            assert place in refused(2, "start", "shop.plain", "--input", given, dsn=database_dsn)
    assert facts("list", dsn=database_dsn)["counts"] == {}


# -- flows


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("shop", "not MODULE:FLOW"),
        ("shop.py", "not MODULE:FLOW"),
        ("./shop:plain", "not MODULE:FLOW"),
        ("shop:", "not MODULE:FLOW"),
        ("shop:plane", "has no 'plane'; its flows are doubtful, failing, plain"),
        ("shop:add", "is a Capability, not a Flow; its flows are"),
        ("gone_module:plain", "'gone_module' was not found"),
        ("gone_module.flows:plain", "'gone_module' was not found"),
        ("needs_more:plain", "needs the module 'not_installed_anywhere'"),
        ("breaks:plain", "ZeroDivisionError"),
        ("misspelt:plain", "SyntaxError"),
        ("leaves:plain", "SystemExit"),
        ("empty:plain", "it holds no flows"),
    ],
)
def test_a_flow_that_cannot_be_loaded_is_explained(
    spec: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {
        "needs_more": "import not_installed_anywhere",
        "breaks": "value = 1\nvalue / 0",
        "misspelt": "def",
        "leaves": "raise SystemExit(0)",
        "empty": "",
        "shop": (HERE / "shop.py").read_text(encoding="utf-8"),
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(report.Usage, match=re.escape(told)):
        loading.load_flows([spec])


def test_the_version_is_told_without_a_database() -> None:
    assert ok("--version") == f"ninelives {version('ninelives')}"


# -- leaving


@pytest.mark.parametrize("command", [("list",), ("migrate",), ("node", "shop:plain")])
def test_an_interrupt_ends_the_wait_for_a_server_that_says_nothing(command: tuple[str, ...], silent: Silent) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ninelives", *command, "--dsn", silent.dsn],
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        silent.wait_for_caller()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("error: interrupted; ")
    assert len(err.splitlines()) == 1


@pytest.mark.postgres
def test_an_interrupted_wait_says_which_instance_goes_on(database_dsn: str) -> None:
    migrate(database_dsn)
    with (
        node("waiting", dsn=database_dsn),
        subprocess.Popen(
            [sys.executable, "-m", "ninelives", "start", "shop.waiting", "--input", "[1]", "--wait"],
            env=environment(NINELIVES_DSN=database_dsn),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 130
        (line,) = facts("list", dsn=database_dsn)["instances"]
        assert line["instance_id"] in first
        assert f"instance {line['instance_id']} is started and goes on" in err


@pytest.mark.postgres
def test_a_reader_that_goes_away_is_no_error(database_dsn: str) -> None:
    migrate(database_dsn)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "ninelives", "list", "--json"],
        env=environment(NINELIVES_DSN=database_dsn),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.stderr == ""
