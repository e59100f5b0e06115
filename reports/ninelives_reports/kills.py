"""The sections that prove the faults: every kill's receipt and exit, what it left behind, and what was in doubt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ninelives_reports.load import ArmView, Record, View, record
from ninelives_reports.story import KillStory, tell_kills
from ninelives_reports.text import UNKNOWN, code, seconds, setting, sheet, table, whole
from ninelives_rig.checkers.facts import SIGKILL
from ninelives_rig.percentile import summarize

_SHOWN = 6
_ARMS_WIDE = 3

Stories = dict[str, list[KillStory]]


def read_stories(view: View) -> Stories:
    """Return the kills of every arm whose evidence can be read."""
    return {
        arm.name: tell_kills(arm.facts, arm.recovery)
        for arm in view.arms
        if arm.facts is not None and arm.recovery is not None
    }


def summarize_takeovers(stories: Stories) -> dict[str, Record]:
    """Return, by arm, the distribution of the time from a kill to the takeover of what it left."""
    return {
        name: summarize([wait for story in kills for wait in story.takeovers_s]).as_dict()
        for name, kills in stories.items()
    }


def write_kills(view: View, stories: Stories) -> list[str]:
    """Write how many kills were planned, delivered and proved, where they hit, and the first of them in full."""
    if not view.arms:
        return []
    lines = ["## The kills, proved from both sides", "", *_count_kills(view, stories)]
    lines += ["", *_PROOF]
    lines += ["", *_write_roles(view, stories), "", *_write_places(view, stories)]
    shown = _SHOWN if len(stories) <= _ARMS_WIDE else _SHOWN // 2
    for name, kills in stories.items():
        if kills:
            lines += ["", f"The first {whole(min(len(kills), shown))} of {whole(len(kills))} in {code(name)}:", ""]
            lines += _list_kills(kills[:shown])
    lines += [
        "",
        "All of them, in the bundle: receipts in `arms/<arm>/receipts/*.json`, exits as `process.exited` in",
        "`arms/<arm>/history/coordinator.jsonl`, and the schedule, made before the run, in `arms/<arm>/schedule.json`.",
    ]
    return lines


_PROOF = (
    "A receipt is a file that the process itself creates at the boundary, before it dies there. A kill counts as",
    "proved only when the coordinator reaped this very process, by pid and start time, with signal 9.",
)


def _count_kills(view: View, stories: Stories) -> list[str]:
    head = ["arm", "planned", "receipts", "proved by exit -9", "flows left behind", "taken over", "ended"]
    rows = []
    for arm in view.arms:
        kills = stories.get(arm.name)
        known = kills is not None
        kills = kills or []
        rows.append(
            [
                arm.name,
                whole(arm.declared.get("kills_planned")),
                whole(len(kills)) if known else whole(arm.count("kills")),
                whole(sum(story.kill.proved for story in kills)) if known else whole(arm.count("kills_proved")),
                whole(sum(story.abandoned for story in kills)) if known else UNKNOWN,
                whole(sum(len(story.takeovers_s) for story in kills)) if known else UNKNOWN,
                whole(sum(len(story.ends_s) for story in kills)) if known else UNKNOWN,
            ]
        )
    return table(head, rows)


def _write_roles(view: View, stories: Stories) -> list[str]:
    proved = {name: [story.kill for story in kills if story.kill.proved] for name, kills in stories.items()}
    roles = sorted({kill.role for kills in proved.values() for kill in kills})
    rows = [
        [name, *(whole(sum(kill.role == role for kill in kills)) for role in roles)] for name, kills in proved.items()
    ]
    return table(["proved kills by role of the node", *roles], rows) if roles else ["No kill was proved."]


def _write_places(view: View, stories: Stories) -> list[str]:
    """Write how often each boundary was hit and in which arms, those that the engine names and nobody hit included."""
    named = {name for arm in view.arms for name in _strings(arm.declared.get("boundaries"))}
    hits: dict[str, Counter[str]] = defaultdict(Counter)
    steps: dict[str, Counter[int]] = defaultdict(Counter)
    for name, kills in stories.items():
        for story in kills:
            if story.kill.proved:
                hits[story.kill.boundary][name] += 1
                steps[story.kill.boundary][story.kill.step_id] += 1
    rows = [
        [
            code(boundary),
            whole(hits[boundary].total()),
            ", ".join(f"step {step} {whole(n)}" for step, n in sorted(steps[boundary].items()) if step) or UNKNOWN,
            ", ".join(f"{arm} {whole(n)}" for arm, n in hits[boundary].items()) or UNKNOWN,
        ]
        for boundary in sorted(named | hits.keys())
    ]
    return sheet(["boundary", "proved kills", "by step", "by arm"], rows) if rows else []


def _strings(value: object) -> Iterable[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _list_kills(kills: Sequence[KillStory]) -> list[str]:
    head = ["kill", "at", "process", "pid", "start time", "boundary", "step", "token", "exit", "left behind"]
    head += ["first taken over after", "all taken over after", "all ended after"]
    return sheet(head, [_kill_row(story) for story in kills])


def _kill_row(story: KillStory) -> list[str]:
    kill = story.kill
    return [
        kill.kill_id,
        seconds(story.at_s),
        story.process,
        str(kill.pid),
        str(kill.start_time),
        kill.boundary,
        str(kill.step_id) if kill.step_id else UNKNOWN,
        str(kill.token) if kill.token else UNKNOWN,
        ("-9" if story.exitcode == SIGKILL else setting(story.exitcode))
        if story.exitcode is not None
        else "not reaped",
        whole(story.abandoned),
        seconds(story.takeovers_s[0]) if story.takeovers_s else UNKNOWN,
        seconds(story.takeovers_s[-1]) if len(story.takeovers_s) == story.abandoned and story.abandoned else UNKNOWN,
        seconds(story.ends_s[-1]) if len(story.ends_s) == story.abandoned and story.abandoned else UNKNOWN,
    ]


def write_in_doubt(view: View, level: str = "##") -> list[str]:
    """Write what became of the intents that a successor found without an outcome; nothing where none could be."""
    arms = [arm for arm in view.arms if arm.effect == "at_most_once" or arm.count("in_doubt")]
    if not arms:
        return []
    head = [
        "arm",
        "kills proved",
        "in doubt",
        "settled: effect had happened",
        "settled: voided, done again",
        "left open",
    ]
    rows = []
    for arm in arms:
        done, voided = _settled(arm)
        counts = (arm.count("kills_proved"), arm.count("in_doubt"), done, voided, arm.count("in_doubt_open"))
        rows.append([arm.name, *map(whole, counts)])
    return [
        f"{level} In doubt",
        "",
        "An `at_most_once` step commits an intent before its effect. A successor that finds an intent without an",
        "outcome does not repeat the effect: it asks whether it happened, and settles the intent as done or voids it.",
        "",
        *table(head, rows),
    ]


def _settled(arm: ArmView) -> tuple[int | None, int | None]:
    """Count the doubted intents that were settled as done, and as voided."""
    intent = arm.facts.arm.tables.get("intent") if arm.facts else None
    if intent is None:
        return None, None
    doubted = intent[intent["doubted_token"].notna()]["outcome"]
    return int(doubted.isin(["done", "committed"]).sum()), int((doubted == "voided").sum())


def write_expectations(view: View) -> list[str]:
    """Write the exact counts that an arm promised, beside what was found."""
    promises = {arm.name: record(arm.declared.get("expect")) for arm in view.arms}
    names = sorted({name for promised in promises.values() for name in promised})
    if not names:
        return []
    rows = [
        [arm.name, *(_compare(arm, name, promises[arm.name].get(name)) for name in names)]
        for arm in view.arms
        if promises[arm.name]
    ]
    intro = "Counts that one kill at a time makes exact: found, and promised where that is another number."
    return ["## Promised counts", "", intro, "", *table(["arm", *(name.replace("_", " ") for name in names)], rows)]


def _compare(arm: ArmView, name: str, promised: object) -> str:
    found = arm.count(*_FOUND.get(name, (name,)))
    if promised is None:
        return UNKNOWN
    return whole(found) if found == promised else f"**{whole(found)}, promised {whole(promised)}**"


_FOUND = {
    "kills": ("kills_proved",),
    "duplicates_documented": ("duplicates", "documented_window"),
    "duplicates_against": ("duplicates", "against_guarantee"),
    "duplicates_between": ("duplicates", "between_live_workers"),
}
