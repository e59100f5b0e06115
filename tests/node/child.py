"""A node in a process of its own: runs until SIGTERM, says `ready` when it is open.

Usage: child.py DSN '{"flows": ["THREE"], "settings": {...}}'; what is left out means all flows and the defaults.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from tests.node import flows

from ninelives import Node, Settings


async def main(dsn: str, wanted: dict[str, Any]) -> None:
    """Serve."""
    carried = [getattr(flows, name) for name in wanted.get("flows", ())] or flows.ALL
    async with Node(dsn, flows=carried, settings=Settings(**wanted.get("settings", {})), name="child") as node:
        print("ready", node.session_id, flush=True)
        await node.run()
    print("claims", node.takeovers, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
