"""Each boundary of the step protocol is reached in exactly one place, by one inert line."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
from tests.style.source import imports, is_within, modules

from ninelives.boundaries import Boundary

_VALUE = re.compile(r"[a-z]+\.[a-z]+(_[a-z]+)*")


def boundary_problems(trees: dict[str, ast.Module], names: set[str]) -> list[str]:
    """Return what is wrong with the calls `reached(Boundary.NAME, ...)` of `trees`, for the members `names`."""
    calls: Counter[str] = Counter()
    problems = []
    for module, tree in trees.items():
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "reached"):
                continue
            place = f"{module}:{node.lineno}"
            match = re.fullmatch(r"(?:boundaries\.)?Boundary\.(\w+)", ast.unparse(node.args[0]) if node.args else "")
            if match is None:
                problems.append(f"{place}: the boundary must be written out as Boundary.NAME")
                continue
            calls[match[1]] += 1
            if id(node) not in statements:
                problems.append(f"{place}: the call must be a statement of its own, it returns nothing")
            if node.keywords or len(node.args) != 6:
                problems.append(f"{place}: pass the six facts by position")
    problems += [f"{name} is reached {calls[name]} times" for name in sorted(names) if calls[name] != 1]
    return problems + [f"{name} is no boundary" for name in sorted(set(calls) - names)]


def test_each_boundary_has_exactly_one_call_site() -> None:
    trees = {name: tree for name, tree in modules("ninelives").items() if name != "ninelives.boundaries"}
    assert boundary_problems(trees, {boundary.name for boundary in Boundary}) == []


def test_values_are_unique_and_name_a_fact() -> None:
    values = [boundary.value for boundary in Boundary]
    # An enum turns a repeated value into an alias without a word.
    assert len(values) == len(Boundary.__members__) == len(set(values))
    assert [value for value in values if not _VALUE.fullmatch(value)] == []
    assert [b for b in Boundary if b.name.lower() != b.value.replace(".", "_")] == []


def test_the_runtime_does_not_know_the_rig() -> None:
    known = {
        f"{name} imports {target}"
        for name, tree in modules("ninelives").items()
        for target in imports(tree, name)
        if is_within(target, ["ninelives_rig", "ninelives_scenarios", "ninelives_bench", "ninelives_reports"])
    }
    assert known == set()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("", "ONE is reached 0 times"),
        ("reached(Boundary.ONE, i, '', 0, 0, 0)\nreached(Boundary.ONE, i, '', 0, 0, 0)", "ONE is reached 2 times"),
        ("x = reached(Boundary.ONE, i, '', 0, 0, 0)", "toy:1: the call must be a statement of its own"),
        ("reached(Boundary.ONE, i, scope='')", "toy:1: pass the six facts by position"),
        ("reached(what, i, '', 0, 0, 0)", "toy:1: the boundary must be written out"),
        ("reached(Boundary.TWO, i, '', 0, 0, 0)", "TWO is no boundary"),
    ],
)
def test_each_kind_of_problem_is_seen(source: str, problem: str) -> None:
    problems = boundary_problems({"toy": ast.parse(source)}, {"ONE"})
    assert any(problem in text for text in problems), problems


def test_one_plain_call_is_no_problem() -> None:
    tree = ast.parse("def f(self):\n    boundaries.reached(Boundary.ONE, self.id, '', 0, 0, self.token)")
    assert boundary_problems({"toy": tree}, {"ONE"}) == []
