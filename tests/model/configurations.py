"""The explored configurations by name: what runs, what may fail and how often, and which parts are split up.

The counts are those of a whole exploration. They are compared, so that no change of the model goes unseen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

from tests.model.plan import Plan, at_most_once, child, delay, inline, signal, task
from tests.model.rules import PROTOCOL, Rules
from tests.model.setting import Setting


class Shape(TypedDict, total=False):
    """The parts of a setting that configurations choose besides plans, faults and rules."""

    nodes: int
    slots: int
    at_locks: bool
    folded_start: bool
    folded_finish: bool
    deadline: bool
    signals_come: bool
    signals_at_locks: bool


@dataclass(frozen=True)
class Configuration:
    """One configuration of the protocol as it is; ``states`` and ``transitions`` are what its exploration counts."""

    name: str
    plans: Sequence[Plan]
    faults: Mapping[str, int]
    states: int
    transitions: int
    rules: Rules = PROTOCOL
    shape: Shape = field(default_factory=Shape)

    def setting(
        self, faults: Mapping[str, int] | None = None, ignored: frozenset[str] = frozenset(), **rules: object
    ) -> Setting:
        """Return what is explored, with other bounds and other rules where they are given."""
        changed = replace(self.rules, **rules)  # type: ignore[arg-type]  # names of rules, checked by replace itself
        return Setting(self.plans, self.faults if faults is None else faults, changed, ignored=ignored, **self.shape)


def _configuration(
    name: str,
    plans: Sequence[Plan],
    counted: tuple[int, int],
    faults: Mapping[str, int],
    rules: Rules = PROTOCOL,
    **shape: Unpack[Shape],
) -> Configuration:
    return Configuration(name, plans, faults, *counted, rules, shape)


# Faults that most configurations allow once each.
USUAL = {"crash": 1, "freeze": 1, "false death": 1, "lost answer": 1}

_REDIS = Rules(lease_store="redis mints tokens", due="run_at only")

_ONE = [Plan([inline()])]
_TWO = [Plan([inline()], [inline()])]
_SIGNAL = [Plan([inline()], [signal(0)])]
_ONLY_SIGNAL = [Plan([signal(0)])]
_TASK = [Plan([task()])]
_CHILD = [Plan([child(1)]), Plan([inline()])]
_EFFECT = [Plan([at_most_once()])]
_EFFECT_AND_MORE = [Plan([at_most_once()], [inline()])]

CONFIGURATIONS = (
    _configuration("core", _TWO, (106_348, 284_631), {**USUAL, "crash": 2}),
    _configuration("core3", _ONE, (181_424, 562_150), USUAL, nodes=3),
    _configuration("late", _SIGNAL, (69_155, 234_603), {"crash": 1, "freeze": 1, "late execution": 1}),
    _configuration("lateamo", _EFFECT, (56_748, 178_785), {"freeze": 1, "false death": 1, "late execution": 1}),
    _configuration("frozentx", _ONE, (321_788, 1_002_030), {**USUAL, "server restart": 1}, at_locks=True),
    _configuration("frozensig", _ONLY_SIGNAL, (27_353, 66_007), {"freeze": 1, "false death": 1}, at_locks=True),
    _configuration("signal", _SIGNAL, (401_746, 1_211_723), {**USUAL, "repeated signal": 1}),
    _configuration(
        "signal2",
        [Plan([signal(0)], [signal(0, timeout=True)])],
        (824_375, 2_604_287),
        {"crash": 1, "freeze": 1, "lost answer": 1, "repeated signal": 1},
    ),
    _configuration(
        "parsig",
        [Plan([signal(0), signal(0, timeout=True)])],
        (1_822_855, 5_986_323),
        {"crash": 1, "freeze": 1, "lost answer": 1, "repeated signal": 1},
    ),
    _configuration("early", _ONLY_SIGNAL, (100_627, 265_117), USUAL, Rules(early_signal="start lock")),
    _configuration(
        "timeout",
        [Plan([signal(0, timeout=True)], [delay()])],
        (125_163, 326_377),
        {"crash": 1, "freeze": 1, "repeated signal": 1},
    ),
    _configuration(
        "task", _TASK, (39_685, 121_599), {"crash": 1, "false death": 1, "task expiry": 1, "worker crash": 1}
    ),
    _configuration(
        "tasklost",
        _TASK,
        (374_773, 1_490_947),
        {"freeze": 1, "false death": 1, "lost answer": 1, "late execution": 1},
    ),
    _configuration(
        "taskterm", _TASK, (50_007, 148_003), {"false death": 1, "task expiry": 1, "terminate": 1, "pause": 1}
    ),
    _configuration("child", _CHILD, (338_024, 874_121), USUAL),
    _configuration("childtx", _CHILD, (9_596, 19_787), {"freeze": 1}, at_locks=True),
    _configuration(
        "childterm",
        [Plan([child(1)], [signal(0)]), Plan([inline()])],
        (116_942, 301_146),
        {"false death": 1, "terminate": 1, "pause": 1},
    ),
    _configuration(
        "control",
        _SIGNAL,
        (759_428, 2_323_043),
        {"crash": 1, "freeze": 1, "false death": 1, "pause": 1, "terminate": 1},
    ),
    _configuration("amo", _EFFECT_AND_MORE, (492_062, 1_284_225), USUAL),
    _configuration("amodoubt", _EFFECT_AND_MORE, (218_259, 578_984), USUAL, Rules(reconcile="doubt")),
    _configuration(
        "amoterm",
        _EFFECT,
        (1_515_052, 4_467_142),
        {"crash": 1, "freeze": 1, "false death": 1, "terminate": 1, "pause": 1},
    ),
    _configuration("parallel", [Plan([inline(), inline()], [inline()])], (95_062, 275_037), USUAL),
    _configuration(
        "parmixed",
        [Plan([inline(), signal(0), at_most_once()])],
        (152_676, 495_391),
        {"crash": 1, "false death": 1},
    ),
    _configuration(
        "fold", _TWO, (58_053, 154_048), {**USUAL, "lost answer": 2}, folded_start=True, folded_finish=True
    ),
    _configuration("foldchild", _CHILD, (213_963, 551_432), USUAL, folded_start=True, folded_finish=True),
    _configuration(
        "redis", _TWO, (440_777, 1_373_571), {"crash": 1, "freeze": 1, "false death": 1, "flush": 1}, _REDIS
    ),
    _configuration("redisamo", _EFFECT, (42_124, 106_508), {"freeze": 1, "flush": 1}, _REDIS),
    _configuration(
        "redissig",
        _ONLY_SIGNAL,
        (391_114, 1_189_639),
        {"crash": 1, "false death": 1, "flush": 1, "repeated signal": 1},
        _REDIS,
    ),
    _configuration("runat", _SIGNAL, (9_050, 23_766), {"crash": 1, "freeze": 1}, Rules(due="run_at only")),
    # What follows goes beyond the first 29 configurations.
    _configuration(
        "resume",
        _SIGNAL,
        (328_061, 977_041),
        {"crash": 1, "false death": 1, "pause": 2},
        Rules(claim_statement="judged under the lock"),
    ),
    _configuration("deadline", _SIGNAL, (393_068, 1_232_697), USUAL, deadline=True, signals_come=False),
    _configuration(
        "deadlinectl",
        _SIGNAL,
        (176_968, 566_421),
        {"crash": 1, "false death": 1, "pause": 1, "terminate": 1},
        deadline=True,
        signals_come=False,
    ),
    _configuration("slots", _ONE, (90_814, 304_275), USUAL, slots=2),
    _configuration("slotssig", _ONLY_SIGNAL, (71_830, 262_533), {"false death": 2, "lost answer": 1}, slots=2),
    _configuration(
        "slotschild", _CHILD, (896_916, 3_463_763), {"crash": 1, "false death": 1, "lost answer": 1}, slots=2
    ),
    _configuration("slotsamo", _EFFECT, (375_836, 1_217_767), {"crash": 1, "false death": 2}, slots=2),
    _configuration(
        "redisfrozen",
        _TWO,
        (478_563, 1_554_557),
        {"crash": 1, "freeze": 1, "redis expiry": 1, "flush": 1},
        replace(_REDIS, redis_lease_ends="by its own expiry"),
    ),
    _configuration(
        "redisfrozentx",
        _ONE,
        (632_199, 2_201_840),
        {"freeze": 1, "redis expiry": 1, "false death": 1, "flush": 1},
        replace(_REDIS, redis_lease_ends="by its own expiry"),
        at_locks=True,
    ),
    _configuration(
        "frozenclient",
        _ONLY_SIGNAL,
        (62_053, 143_697),
        {"crash": 1, "freeze": 1, "client freeze": 1},
        at_locks=True,
        signals_at_locks=True,
    ),
)

BY_NAME = {configuration.name: configuration for configuration in CONFIGURATIONS}
