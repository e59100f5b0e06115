"""Explore the whole model and print what was found: `python -m tests.model`, or with names what is of interest.

A name of a configuration explores it; the number of a mutant explores that and prints its script.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

from tests.model.report import (
    configuration_names,
    mutant_numbers,
    print_configurations,
    print_lock_orders,
    print_mutants,
    print_sessions,
    run_configuration,
    run_mutant,
)

LOCKS = "locks"
SESSIONS = "sessions"


def main(arguments: list[str]) -> int:
    """Run what is asked for; 0 if everything is as it has to be, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("names", nargs="*", help="configurations, mutants, `locks`, `sessions`; all without one")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2, each up to 3 GB)")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    everything = {*configuration_names(), *mutant_numbers(), LOCKS, SESSIONS}
    unknown = set(options.names) - everything
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    chosen = set(options.names) or everything
    good = True
    names = [name for name in configuration_names() if name in chosen]
    if names:
        # A process for each, so that the memory of a great one is given back at its end.
        with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
            good &= print_configurations(pool.imap(run_configuration, names))
    numbers = [number for number in mutant_numbers() if number in chosen]
    if numbers:
        good &= print_mutants(map(run_mutant, numbers), scripts=bool(options.names))
    if LOCKS in chosen:
        good &= print_lock_orders()
    if SESSIONS in chosen:
        good &= print_sessions()
    verdict = "everything is as it has to be" if good else "NOT EVERYTHING IS AS IT HAS TO BE"
    print(f"{verdict}; {time.perf_counter() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
