"""Plants mutants in this process: edits of the runtime's SQL blocks and functions, each checked to apply.

The runtime knows nothing of it. An edit names the text that it replaces, and a text that is not there exactly once is
an error, so that a mutant never goes stale in silence and counts as caught, or survives, without having been planted.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ninelives import queries


class EditRefused(Exception):
    """An edit does not apply: its place is gone, or its text is not there exactly once."""


@dataclass(frozen=True)
class SqlEdit:
    """Replace ``old`` by ``new`` in a named block of the runtime's SQL."""

    block: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Where the edit belongs, for people."""
        return f"SQL block {self.block}"


@dataclass(frozen=True)
class CodeEdit:
    """Replace ``old`` by ``new`` in the source of ``module:Class.method`` or ``module:function``, without indent."""

    function: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Where the edit belongs, for people."""
        return self.function


Edit = SqlEdit | CodeEdit


class Plot:
    """The edits of one process, made one behind the other and put in place together.

    ``blocks`` and ``sources`` hold the edited statements and functions by name.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def add(self, edit: Edit) -> None:
        """Make one edit; raises ``EditRefused``."""
        if isinstance(edit, SqlEdit):
            self.blocks[edit.block] = _replaced(edit, self.blocks.get(edit.block) or _statement(edit.block))
        else:
            source = self.sources.get(edit.function) or _source(edit.function)
            self.sources[edit.function] = _replaced(edit, source)

    def original(self, block: str) -> str:
        """Return a block as it stands in the runtime."""
        return _statement(block)

    def put_in_place(self) -> None:
        """Let this process run the edited runtime from now on."""
        self.put_functions_in_place()
        if self.blocks:
            _override_blocks(dict(self.blocks))

    def put_functions_in_place(self) -> None:
        """Let this process run the edited functions; the statements are for whoever loads them with ``blocks``."""
        for function, source in self.sources.items():
            module, holder, name = _find(function)
            setattr(holder, name, _made(function, source, module, name))


def plant(names: Iterable[str]) -> None:
    """Plant the mutants of these names in this process; raises ``EditRefused``."""
    plot = Plot()
    for name in names:
        for edit in edits_of(name):
            plot.add(edit)
    plot.put_in_place()


def edits_of(name: str) -> tuple[Edit, ...]:
    """Return the edits of a mutant or a slowness; raises ``EditRefused`` for an unknown name."""
    from ninelives_rig.sabotage.code_mutants import CODE_MUTANTS, SLOWNESS
    from ninelives_rig.sabotage.sql_mutants import SQL_MUTANTS

    found = (*SQL_MUTANTS.get(name, ()), *CODE_MUTANTS.get(name, ()), *SLOWNESS.get(name, ()))
    if not found:
        raise EditRefused(f"nothing can be planted under the name {name!r}")
    return found


def _replaced(edit: Edit, text: str) -> str:
    found = text.count(edit.old)
    if found != 1:
        raise EditRefused(
            f"{edit.place}: the text to replace stands there {found} times, not once; "
            f"bring the mutant up to date with the runtime: {edit.old.strip()[:80]!r}"
        )
    return text.replace(edit.old, edit.new)


def _statement(block: str) -> str:
    known = queries.blocks()
    if block not in known:
        raise EditRefused(f"the runtime has no SQL block {block!r}")
    return known[block].statement


def _find(function: str) -> tuple[Any, Any, str]:
    module_name, _, path = function.partition(":")
    module = importlib.import_module(module_name)
    holder: Any = module
    *parts, name = path.split(".")
    for part in parts:
        holder = getattr(holder, part)
    return module, holder, name


def _source(function: str) -> str:
    try:
        _, holder, name = _find(function)
        return textwrap.dedent(inspect.getsource(getattr(holder, name)))
    except (ImportError, AttributeError, OSError) as error:
        raise EditRefused(f"{function} is not there any more: {error}") from error


def _made(function: str, source: str, module: Any, name: str) -> Any:
    """Return what a function's source makes, in its module's names; nothing is put in place."""
    made: dict[str, Any] = {}
    code = compile(f"from __future__ import annotations\n{source}", f"<sabotage of {function}>", "exec")
    exec(code, module.__dict__, made)
    return made[name]


def _override_blocks(blocks: Mapping[str, str]) -> None:
    load = queries.load

    def sabotaged(schema: str, overrides: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
        return load(schema, {**blocks, **overrides})

    queries.load = sabotaged
