"""Reading the repository's own source: what the style tests share."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

TOP = Path(__file__).parents[2]

PACKAGES = {
    "ninelives": TOP / "runtime" / "ninelives",
    "ninelives_rig": TOP / "rig" / "ninelives_rig",
    "ninelives_scenarios": TOP / "scenarios" / "ninelives_scenarios",
    "ninelives_bench": TOP / "benchmarks" / "ninelives_bench",
    "ninelives_reports": TOP / "reports" / "ninelives_reports",
}


def modules(package: str) -> dict[str, ast.Module]:
    """Return the syntax tree of every module of `package` by dotted name (`ninelives.sql` is no module)."""
    folder = PACKAGES[package]
    return {
        module_name(path.relative_to(folder.parent)): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(folder.rglob("*.py"))
    }


def module_name(path: Path) -> str:
    """Turn `ninelives/store/claims.py` into `ninelives.store.claims`, and a package's `__init__.py` into its name."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, importer: str, *, is_package: bool = False) -> set[str]:
    """Return the dotted names that `tree` imports anywhere, in functions and for type checkers too.

    `from a import b` counts as `a.b`, since `b` may be a module; relative imports are resolved against `importer`.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = importer.split(".")
                above = parents[: len(parents) - node.level + (1 if is_package else 0)]
                base = ".".join([*above, *([base] if base else [])])
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every string constant that is not a docstring; the fixed parts of f-strings included."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bare = {
        id(statement.value)
        for node in ast.walk(tree)
        for statement in (node.body if isinstance(node, documented) else ())
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node


def is_within(name: str, prefixes: Iterable[str]) -> bool:
    """Tell whether `name` is one of `prefixes` or lies inside one of them."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
