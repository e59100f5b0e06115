"""What an exploration came to, as tables: schedules by state and by operation, violations as scripts, mutants."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ninelives_rig.explore.mutants import RaceMutant, mutant
from ninelives_rig.explore.schedule import Outcome, run
from ninelives_rig.explore.states import STATES, Case, parse_case
from ninelives_rig.explore.tasks import CaseTold, Place, Task, opened, shows
from ninelives_rig.explore.world import open_world
from ninelives_rig.refusal import Refused
from ninelives_rig.sabotage.planting import Plot
from ninelives_rig.verdict import Status

_COUNTS = ("cases", "schedules", "moves", "waits", "violations")


@dataclass
class _Found:
    """Whether a mutant was found, and by which schedule of how many."""

    planted: RaceMutant
    schedules: int
    shown: Outcome | None


@dataclass
class Survey:
    """Collects what tasks told; ``quiet`` prints nothing."""

    quiet: bool = False
    cases: list[CaseTold] = field(default_factory=list)
    mutants: list[_Found] = field(default_factory=list)

    def add(self, task: Task, told: Sequence[CaseTold]) -> None:
        """Take what a task told."""
        if task.mutant:
            planted = mutant(task.mutant)
            failed = [outcome for one in told for outcome in one.failed]
            shown = next((outcome for outcome in failed if shows(planted, outcome)), None)
            self.mutants.append(_Found(planted, sum(one.schedules for one in told), shown))
            return
        self.cases += told
        schedules = sum(one.schedules for one in told)
        names = ", ".join(sorted({one.case.state for one in told}))
        self._print(f"{names}: {schedules} schedules of {len(told)} cases")
        for outcome in [outcome for one in told for outcome in one.failed]:
            self._print(script_of(outcome))

    @property
    def good(self) -> bool:
        """Whether no schedule violates an invariant and every mutant was found."""
        return all(not one.violating for one in self.cases) and all(one.shown for one in self.mutants)

    def close(self, seconds: float) -> dict[str, object]:
        """Print the tables; return everything as JSON can hold it."""
        states = _table({name: [one for one in self.cases if one.case.state == name] for name in STATES})
        operations = _table(_by_operation(self.cases))
        total = _counts(self.cases)
        mutants = [_mutant_line(one) for one in sorted(self.mutants, key=lambda one: one.planted.name)]
        self._print_table("state", states)
        self._print_table("operation (each case counts for both of its own)", operations)
        if mutants:
            self._print(f"\n{'mutant':30}{'found by':10}{'schedules':>10}  in")
        for line in mutants:
            found = line["violation"] or "NOT FOUND"
            self._print(f"{line['name']:30}{line['invariant']:10}{line['schedules']:>10}  {line['script']}: {found}")
        found = sum(one.shown is not None for one in self.mutants)
        unreached = sum(one.unreached for one in self.cases)
        cut = [str(one.case) for one in self.cases if one.cut_off]
        if cut:
            self._print(f"\ncut off, they have more schedules: {', '.join(cut)}")
        lost = f" ({unreached} choices among three could not be come back to)" if unreached else ""
        self._print(
            f"\n{total['schedules']} schedules of {total['cases']} cases, {total['moves']} moves, {total['waits']} of"
            f" them waited for a lock{lost}: {total['violations']} violations; {found} of {len(mutants)} mutants"
            f" found; {seconds:.0f} s"
        )
        return {
            "total": {**total, "unreached": unreached},
            "states": states,
            "operations": operations,
            "cases": [{"case": str(one.case), **_counts([one])} for one in self.cases],
            "violations": [_script_json(outcome) for one in self.cases for outcome in one.failed],
            "mutants": mutants,
            "cut_off": cut,
            "seconds": round(seconds, 1),
        }

    def list(self, cases: Iterable[Case], mutants: Iterable[RaceMutant]) -> None:
        """Print the cases and mutants instead of exploring them."""
        for case in cases:
            print(case)
        for one in mutants:
            print(f"{one.name} ({one.protocol}): {one.removes}; in {', '.join(map(str, one.cases))}")

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)

    def _print_table(self, head: str, table: dict[str, dict[str, int]]) -> None:
        self._print("\n" + head)
        self._print(" " * 16 + "".join(f"{name:>12}" for name in _COUNTS))
        for name, counts in table.items():
            self._print(f"{name:16}" + "".join(f"{counts[column]:>12}" for column in _COUNTS))


def show_script(text: str, place: Place, plant: str | None) -> int:
    """Run one schedule, written ``CASE:ORDER``, and print it move by move; returns the exit code."""
    name, separator, order = text.partition(":")
    case = parse_case(name)
    if not separator or set(order) - set(case.letters):
        raise Refused(f"{text!r} is no schedule; write {case}:ORDER, with an order of the letters {case.letters}")
    plot = Plot()
    for edit in mutant(plant).planted() if plant else ():
        plot.add(edit)
    plot.put_functions_in_place()
    here = place.numbered(0)
    with opened(here) as dsn, open_world(dsn, here.schema, plot) as world:
        outcome = run(world, case, order)
    print(script_of(outcome, plant))
    return Status.FAIL.exit_code if outcome.violations else Status.PASS.exit_code


def script_of(outcome: Outcome, plant: str | None = None) -> str:
    """Return a schedule as a text: every move, every answer, what is wrong, and the command that runs it again."""
    names = dict(zip(outcome.case.letters, outcome.case.operations, strict=True))
    planted = f" --plant {plant}" if plant else ""
    again = f"ninelives-rig explore{planted} --script {shlex.quote(f'{outcome.case}:{outcome.letters}')}"
    moves = [
        f"  {move.letter} {names[move.letter]:14} {move.sent}{' ... waits' if move.waited else ''}"
        for move in outcome.moves
    ]
    answers = [f"  = {answer}" for answer in outcome.answers]
    wrong = [f"  VIOLATION {one}" for one in outcome.violations]
    return "\n".join([f"{outcome.case} in the order {outcome.letters}", *moves, *answers, *wrong, f"  again: {again}"])


def _script_json(outcome: Outcome) -> dict[str, object]:
    return {
        "case": str(outcome.case),
        "order": outcome.letters,
        "moves": [f"{move.letter} {move.sent}{' waits' if move.waited else ''}" for move in outcome.moves],
        "answers": list(outcome.answers),
        "violations": outcome.violations,
    }


def _mutant_line(found: _Found) -> dict[str, object]:
    shown = found.shown
    wrong = (one for one in shown.violations if one.startswith(found.planted.invariant)) if shown else iter(())
    where = f"{shown.case}:{shown.letters}" if shown else ", ".join(map(str, found.planted.cases))
    return {
        "name": found.planted.name,
        "removes": found.planted.removes,
        "protocol": found.planted.protocol,
        "invariant": found.planted.invariant,
        "schedules": found.schedules,
        "script": where,
        "violation": next(wrong, None),
    }


def _by_operation(cases: Iterable[CaseTold]) -> dict[str, list[CaseTold]]:
    grouped: dict[str, list[CaseTold]] = {}
    for one in cases:
        for name in sorted(set(one.case.operations)):
            grouped.setdefault(name, []).append(one)
    return dict(sorted(grouped.items()))


def _table(grouped: dict[str, list[CaseTold]]) -> dict[str, dict[str, int]]:
    return {name: _counts(cases) for name, cases in grouped.items() if cases}


def _counts(cases: Sequence[CaseTold]) -> dict[str, int]:
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    for one in cases:
        counts.update(cases=1, schedules=one.schedules, moves=one.moves, waits=one.waits, violations=one.violating)
    return dict(counts)
