"""The whole repository stays readable: short files and functions, no leftovers, nothing of one machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.style.source import PACKAGES, TOP, strings

LINES_MAX = 400
FUNCTION_LINES_MAX = 60

FOLDERS = ("runtime", "rig", "scenarios", "benchmarks", "reports", "migrations", "tests", ".ci")
TOP_LEVEL = {
    *FOLDERS,
    *(".git", ".gitignore", ".venv", ".venv.lock", "Makefile", "pyproject.toml", "constraints.txt"),
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"),
    *("dist", "build", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage"),
}
TEXT = {".py", ".sql", ".md", ".toml", ".txt", ".cfg", ".sh", ".json", ".jsonl", ".csv", ""}
EVIDENCE = ("reports", "evidence")

# Pieced together, so that this file does not hold what it forbids.
BANNED = {
    "a path of one machine": re.compile(r"(?<![\w.<>-])/(?:wo" r"rk|ro" r"ot|home/\w+|Users/\w+)/\w"),
    "a registry's host": re.compile(
        "|".join(
            ["py" r"pi\.org", "python" r"hosted\.org", "npm" r"js\.org", r"deb\.deb" r"ian\.org", "crates" r"\.io"]
        )
    ),
    "a leftover without an issue number": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\s*\(?#\d+)"),
    "a merge marker": re.compile(r"^(?:<{7}|>{7}) ", re.M),
}
_IGNORE = re.compile(r"#\s*type:\s*ignore(?P<code>\[[\w, -]+\])?(?P<rest>.*)")


def text_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*")):
            inside = path.relative_to(TOP).parts
            if "__pycache__" not in inside and inside[:2] != EVIDENCE and path.suffix in TEXT and path.is_file():
                yield path
    yield from (path for path in sorted(TOP.iterdir()) if path.is_file() and path.suffix in TEXT)


def length_problems(name: str, text: str) -> list[str]:
    lines = len(text.splitlines())
    problems = [f"{name} has {lines} lines, at most {LINES_MAX}"] if lines > LINES_MAX else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                problems.append(f"{name}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}")
    return problems


def banned_problems(name: str, text: str) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {what}"
        for what, rule in BANNED.items()
        for match in rule.finditer(text)
    ]


def ignore_problems(name: str, text: str) -> list[str]:
    """A silenced type error names its code and, behind a second #, its reason."""
    found = ((number, _IGNORE.search(line)) for number, line in enumerate(text.splitlines(), 1))
    return [
        f"{name}:{number}: type: ignore needs [code] and '# reason'"
        for number, match in found
        if match and not (match["code"] and re.match(r"\s*#\s*\w{2,}", match["rest"]))
    ]


def unchecked(findings: dict[str, tuple[str, ...]], evidence: list[ast.Module]) -> list[str]:
    """Return the checkers of whose findings no bad history and no mutant names one: never seen to fail."""
    named = {word for tree in evidence for node in strings(tree) for word in str(node.value).split()}
    return sorted(checker for checker, names in findings.items() if not named & set(names))


def test_files_and_functions_are_short() -> None:
    paths = [path for path in text_files() if path.suffix == ".py"]
    assert len(paths) > 50
    problems = [
        line for path in paths for line in length_problems(str(path.relative_to(TOP)), path.read_text(encoding="utf-8"))
    ]
    assert problems == []


def test_no_file_holds_banned_words() -> None:
    problems = [
        line
        for path in text_files()
        for line in banned_problems(str(path.relative_to(TOP)), path.read_text(encoding="utf-8"))
    ]
    assert problems == []


def test_every_silenced_type_error_of_the_packages_has_a_reason() -> None:
    problems = [
        line
        for folder in PACKAGES.values()
        for path in sorted(folder.rglob("*.py"))
        for line in ignore_problems(str(path.relative_to(TOP)), path.read_text(encoding="utf-8"))
    ]
    assert problems == []


def test_the_top_level_is_fixed() -> None:
    # Evidence that somebody let a run write here (OUT=dir) is not part of the project.
    present = {path.name for path in TOP.iterdir() if not (path / "manifest.json").exists()}
    assert sorted(present - TOP_LEVEL) == []


def test_every_checker_has_been_seen_to_fail() -> None:
    from ninelives_rig.checkers import CHECKERS

    bad = [*(TOP / "tests" / "checkers").glob("*bad*.py"), *PACKAGES["ninelives_scenarios"].rglob("*mutant*.py")]
    if not bad:
        pytest.skip("no bad histories and no mutants are written yet")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in bad]
    assert unchecked({checker.name: tuple(checker.finding_names) for checker in CHECKERS}, trees) == []


def test_long_files_and_functions_are_seen() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES_MAX))
    assert length_problems("toy.py", f"async def f():\n{body}\n") == ["toy.py:1: f has 61 lines, at most 60"]
    assert length_problems("toy.py", "x = 1\n" * 401) == ["toy.py has 401 lines, at most 400"]
    assert length_problems("toy.py", "x = 1\n" * 400) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/main",
        "open('/ro" + "ot/x')",
        "/home/" + "ann/x",
        "https://py" + "pi.org/simple",
        "# TO" + "DO: later",
        "# FIX" + "ME",
        "<" * 7 + " HEAD",
    ],
)
def test_banned_words_are_seen(text: str) -> None:
    assert len(banned_problems("toy", f"first line\n{text}")) == 1
    assert banned_problems("toy", f"first line\n{text}")[0].startswith("toy:2: ")


@pytest.mark.parametrize("text", ["# TO" + "DO(#12): later", "network/roots", "home/work/x", "run-root", "/var/lib/x"])
def test_innocent_words_are_not_reported(text: str) -> None:
    assert banned_problems("toy", text) == []


def test_type_ignores_without_code_or_reason_are_seen() -> None:
    mark = "# type" + ": ignore"
    assert len(ignore_problems("toy", f"a = b  {mark}\na = b  {mark}[arg-type]\n")) == 2
    assert ignore_problems("toy", f"a = b  {mark}[arg-type]  # the stub is wrong about None\n") == []


def test_a_checker_without_a_bad_history_is_seen() -> None:
    evidence = [ast.parse("told('two_writers lost', FAIL)")]
    checkers = {"fencing": ("two_writers",), "signals": ("unconsumed", "consumed_twice")}
    assert unchecked(checkers, evidence) == ["signals"]
