"""A server that has to read from the disk: restarted, and its files dropped from the page cache."""

from __future__ import annotations

import os

from ninelives_rig.cluster.server import PostgresServer


def cool_down(server: PostgresServer) -> bool:
    """Restart the server with nothing of its data in memory; false when its files could not all be dropped.

    Only this server's files: dropping every cache of the machine would slow down what else runs there.
    """
    server.stop()
    dropped = _forget_files(server)
    server.start()
    return dropped


def _forget_files(server: PostgresServer) -> bool:
    all_dropped = True
    for path in server.data.rglob("*"):
        if not path.is_file():
            continue
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            all_dropped = False
            continue
        try:
            # What is not written yet would stay in the cache.
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except (OSError, AttributeError):
            all_dropped = False
        finally:
            os.close(file)
    return all_dropped
