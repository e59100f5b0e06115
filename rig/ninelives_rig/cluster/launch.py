"""Become a server process that dies with the rig. Run by path, standard library only, before an exec.

Usage: launch.py PARENT_PID UID GID DEATH_SIGNAL PROGRAM ARGUMENT...   (UID -1: stay who we are)

A program of its own rather than a hook between fork and exec, because the rig has threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Drop to the user, ask the kernel for a signal when the parent dies, and turn into the program."""
    parent, uid, gid, death_signal = (int(text) for text in arguments[:4])
    program = arguments[4:]
    os.umask(0o077)
    if uid != -1:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of user: the kernel forgets the wish when credentials change.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"launch: the parent {parent} died before {program[0]} was started")
    os.execv(program[0], program)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"launch: {sys.argv[5]}: {error}")
