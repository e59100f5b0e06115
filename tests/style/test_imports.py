"""Imports go one way: scenarios, rig, engine adapters, runtime; and evidence, checkers, verdict, reports."""

from __future__ import annotations

import ast

import pytest
from tests.style.source import PACKAGES, imports, is_within, modules

ALLOWED = {
    "ninelives": {"ninelives"},
    "ninelives_rig": {"ninelives_rig"},
    "ninelives_scenarios": {"ninelives_scenarios", "ninelives_rig"},
    "ninelives_bench": {"ninelives_bench", "ninelives_rig", "ninelives_reports", "ninelives"},
    "ninelives_reports": {"ninelives_reports", "ninelives_rig"},
}

# The only places outside the runtime that may know it by name.
EXCEPTIONS = {
    "ninelives_rig.engines.reference": {"ninelives"},
    "ninelives_rig.engines.reference_flows": {"ninelives"},
    "ninelives_rig.engines.reference_faults": {"ninelives"},
    "ninelives_rig.sabotage.sql_mutants": {"ninelives"},
    "ninelives_rig.sabotage.code_mutants": {"ninelives"},
    "ninelives_rig.sabotage.start_mutants": {"ninelives"},
    "ninelives_rig.sabotage.slowness": {"ninelives"},
    "ninelives_rig.sabotage.planting": {"ninelives"},
    # The explorer drives the store's own functions, statement by statement.
    "ninelives_rig.explore.stepping": {"ninelives"},
    "ninelives_rig.explore.actor": {"ninelives"},
    "ninelives_rig.explore.operations": {"ninelives"},
    "ninelives_rig.explore.world": {"ninelives"},
    # What a user's own flow looks like.
    "ninelives_scenarios.embedded": {"ninelives"},
    "ninelives_scenarios.order_example": {"ninelives"},
}

# What judges a bundle must be able to do so on a machine without a database.
JUDGING = (
    "ninelives_rig.checkers",
    "ninelives_rig.judge",
    "ninelives_rig.verdict",
    "ninelives_rig.percentile",
    "ninelives_rig.evidence.bundle",
    "ninelives_rig.evidence.seal",
    "ninelives_rig.evidence.tables",
    "ninelives_reports",
)
NOT_WHEN_JUDGING = (
    "psycopg",
    "asyncpg",
    "sqlalchemy",
    "ninelives",
    "ninelives_scenarios",
    "ninelives_rig.engines",
    "ninelives_rig.cluster",
)

Graph = dict[str, set[str]]


def read_graph() -> Graph:
    return {
        name: imports(tree, name, is_package=(PACKAGES[package].parent / name.replace(".", "/")).is_dir())
        for package in PACKAGES
        for name, tree in modules(package).items()
    }


def wrong_directions(graph: Graph) -> list[str]:
    wrong = []
    for name, imported in sorted(graph.items()):
        allowed = ALLOWED[name.split(".")[0]] | EXCEPTIONS.get(name, set())
        for target in sorted(imported):
            if is_within(target, PACKAGES) and not is_within(target, allowed):
                wrong.append(f"{name} imports {target}")
    return wrong


def driver_paths(graph: Graph) -> list[str]:
    """Follow the imports of every judging module; return how each forbidden module is reached."""
    found = []
    for start in sorted(name for name in graph if is_within(name, JUDGING)):
        queue, seen = [(start, start)], {start}
        while queue:
            name, path = queue.pop()
            for target in sorted(graph.get(name, ())):
                if is_within(target, NOT_WHEN_JUDGING):
                    found.append(f"{path} -> {target}")
                # `from a.b import c` runs a and a.b, and c too when it is a module.
                parts = target.split(".")
                for module in (".".join(parts[: end + 1]) for end in range(len(parts))):
                    if module in graph and module not in seen:
                        seen.add(module)
                        queue.append((module, f"{path} -> {module}"))
    return found


def test_no_package_imports_against_the_direction() -> None:
    assert wrong_directions(read_graph()) == []


def test_the_judging_half_reaches_no_database_driver_runtime_or_server() -> None:
    assert driver_paths(read_graph()) == []


def test_the_lists_name_modules_that_exist() -> None:
    graph = read_graph()
    assert [name for name in JUDGING if name not in graph] == []
    assert "ninelives_rig.engines.reference" in graph


@pytest.mark.parametrize(
    ("name", "source", "problem"),
    [
        ("ninelives.node", "import ninelives_rig.witness", "ninelives.node imports ninelives_rig.witness"),
        ("ninelives.node", "def f():\n    from ninelives_rig import witness", "imports ninelives_rig.witness"),
        ("ninelives_rig.run", "from ninelives import Flow", "ninelives_rig.run imports ninelives.Flow"),
        ("ninelives_rig.run", "import ninelives_scenarios.qr2", "imports ninelives_scenarios.qr2"),
        ("ninelives_reports.page", "from ninelives import Flow", "imports ninelives.Flow"),
        ("ninelives_scenarios.qr2", "import ninelives", "ninelives_scenarios.qr2 imports ninelives"),
    ],
)
def test_a_wrong_direction_is_seen(name: str, source: str, problem: str) -> None:
    assert problem in wrong_directions({name: imports(ast.parse(source), name)})[0]


def test_an_import_in_the_right_direction_is_not_reported() -> None:
    graph = {
        "ninelives_rig.engines.reference": imports(ast.parse("import ninelives"), "ninelives_rig.engines.reference"),
        "ninelives_rig.run": imports(ast.parse("from . import witness"), "ninelives_rig.run"),
    }
    assert graph["ninelives_rig.run"] == {"ninelives_rig.witness"}
    assert wrong_directions(graph) == []


def test_a_driver_behind_two_imports_is_seen() -> None:
    graph = {
        "ninelives_rig.judge": {"ninelives_rig.helper.tool"},
        "ninelives_rig.helper": set[str](),
        "ninelives_rig.helper.tool": {"psycopg.sql"},
    }
    assert driver_paths(graph) == ["ninelives_rig.judge -> ninelives_rig.helper.tool -> psycopg.sql"]
