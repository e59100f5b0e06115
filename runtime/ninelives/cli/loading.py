"""Find the flows that `ninelives node MODULE:FLOW` names."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ninelives.cli.report import Usage
from ninelives.errors import NinelivesError
from ninelives.flow import Flow
from ninelives.plan import Plan

log = logging.getLogger("ninelives.cli")


def load_flows(specs: list[str]) -> list[Flow | Plan]:
    """Import each `MODULE:FLOW`, the current directory first; raises ``Usage`` that says what is wrong with it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return [_load(spec) for spec in specs]


def _load(spec: str) -> Flow | Plan:
    module_name, colon, path = spec.partition(":")
    if not colon or not path or not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise Usage(f"{spec!r} is not MODULE:FLOW; write it like shop.flows:place_order, without .py and slashes")
    module = _import(module_name)
    found: object = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise Usage(f"module {module_name!r} has no {path!r}; {_flows_in(module)}")
        found = getattr(found, name)
    if isinstance(found, Flow | Plan):
        return found
    raise Usage(f"{spec} is a {type(found).__name__}, not a Flow; {_flows_in(module)}")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except NinelivesError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise Usage(
                f"module {missing!r} was not found; run this in the directory that holds it, or set PYTHONPATH"
            ) from None
        raise Usage(f"module {name!r} needs the module {missing!r}, which is not installed here") from None
    except (Exception, SystemExit) as error:
        # Somebody else's code: where it failed is what its author needs.
        log.debug("importing %s failed", name, exc_info=error)
        raise Usage(
            f"importing {name!r} failed at {_place(error)}: {type(error).__name__}: {error}"
            " (--log-level debug shows the traceback)"
        ) from None


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "an unknown place"


def _flows_in(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, Flow | Plan))
    return f"its flows are {', '.join(names)}" if names else "it holds no flows"
