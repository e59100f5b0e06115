"""The sections that both benchmark reports have: verdict, what was to be reached, machine, how to do it again."""

from __future__ import annotations

from ninelives_reports.bench_figures import figure, number
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.load import Record, record
from ninelives_reports.text import UNKNOWN, code, setting, sheet, table, whole

_WEAK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_MEANING = {
    "PASS": "The limit was kept under the conditions that it asks for",
    "FAIL": "A limit was broken, or something was refused or lost",
    "INCONCLUSIVE": "The conditions that the limit asks for were not met, so it is neither kept nor broken",
    "BROKEN": "The results cannot be judged",
}


def verdict_of(folder: BenchFolder, name: str) -> str:
    """Return the verdict of a part, or `no verdict`."""
    found = folder.part("verdicts", name).get("verdict")
    return found if isinstance(found, str) and found else "no verdict"


def write_verdict(folder: BenchFolder, name: str, *further: str) -> list[str]:
    """Write the verdict of a part first, then those of `further` parts, each with its reasons."""
    lines: list[str] = []
    for part in (name, *further):
        given = folder.part("verdicts", part)
        verdict = verdict_of(folder, part)
        lines += [
            "",
            f"**{verdict}.** {_sentence(verdict)}" if part == name else f"**{part.capitalize()}: {verdict}.**",
        ]
        reasons = given.get("reasons")
        if isinstance(reasons, list) and reasons:
            lines += ["", *(f"- {setting(reason)}" for reason in reasons)]
    return [*lines[1:], *_cautions(folder)]


def _sentence(verdict: str) -> str:
    meaning = _MEANING.get(verdict)
    return f"{meaning}." if meaning else "The results were not judged."


def _cautions(folder: BenchFolder) -> list[str]:
    """Write what a reader must know before any figure."""
    summary, settings = folder.summary, folder.settings
    said = []
    if summary.get("quick"):
        said.append("A quick run: short arms on few samples. Its figures are for a first look and prove nothing.")
    if summary.get("dirty"):
        said.append("The checkout had uncommitted changes: the commit does not tell what was measured.")
    weak = [f"`{name}` is {value}" for name, value in _WEAK.items() if settings.get(name) == value]
    if weak:
        said.append(f"Weak durability: {', '.join(weak)}. What was confirmed could be lost in a crash.")
    return [line for one in said for line in ("", f"> {one}")]


def write_subtitle(folder: BenchFolder) -> str:
    """Write what identifies the run."""
    summary = folder.summary
    kind = "quick run" if summary.get("quick") else "full run"
    cpus = setting(folder.environment.get("cpus_usable"))
    server = setting(folder.settings.get("server_version"))
    return (
        f"Run {code(setting(summary.get('run_id')))}, {kind}, seed {setting(summary.get('seed'))}, "
        f"PostgreSQL {server}, {cpus} cores that load, runtime and server share."
    )


def write_reach(folder: BenchFolder) -> list[str]:
    """Write each figure that was to be reached, what was reached, and whether it held."""
    rows = [[setting(row.get("figure")), _limit(row), figure(row.get("reached")), _held(row)] for row in
            folder.rows("reach")]  # fmt: skip
    lines = ["## What was to be reached", ""]
    if not rows:
        return [*lines, "No data: the run names no figures that were to be reached."]
    held = sum(row[3] == "yes" for row in rows)
    missing = sum(row[3] == "not measured" for row in rows)
    note = f"{held} of {len(rows)} held" + (f", {missing} not measured." if missing else ".")
    return [*lines, note, "", *table(["figure", "limit", "reached", "held"], rows)]


def _limit(row: Record) -> str:
    sign = {"least": "≥ ", "most": "≤ "}.get(str(row.get("sense")), "")
    return f"{sign}{figure(row.get('limit'))}"


def _held(row: Record) -> str:
    if number(row.get("reached")) is None:
        return "not measured"
    return {True: "yes", False: "**no**"}.get(row.get("held"), UNKNOWN)  # type: ignore[arg-type]  # any JSON value


def write_environment(folder: BenchFolder) -> list[str]:
    """Write the machine, the versions and the server's settings."""
    environment, summary = folder.environment, folder.summary
    memory = environment.get("memory_kb")
    memory_gib = f"{int(memory) / 1024**2:.1f} GiB" if isinstance(memory, str) and memory.isdigit() else UNKNOWN
    rows = [
        ("started", setting(summary.get("started_at"))),
        ("commit", setting(summary.get("commit")) + (", with uncommitted changes" if summary.get("dirty") else "")),
        ("seed", setting(summary.get("seed"))),
        ("system", setting(environment.get("system"))),
        ("processor", setting(environment.get("cpu_model"))),
        ("processors usable", f"{setting(environment.get('cpus_usable'))} of {setting(environment.get('cpus'))}"),
        ("memory", memory_gib),
        ("load average before the run", setting(environment.get("load_average_1m"))),
        ("Python", setting(environment.get("python"))),
        *((name, setting(version)) for name, version in sorted(record(environment.get("packages")).items())),
    ]
    lines = ["## Environment and settings", "", *sheet(["machine and code", ""], rows)]
    server = [(code(name), setting(value)) for name, value in sorted(folder.settings.items())]
    if not server:
        return [*lines, "", "No data: the run recorded no settings of the server."]
    return [*lines, "", *sheet(["PostgreSQL setting", ""], server)]


def write_again(folder: BenchFolder) -> list[str]:
    """Write how to run the same again, and how to compare."""
    quick = " QUICK=1" if folder.summary.get("quick") else ""
    files = whole(len(folder.files))
    return [
        "## Run it again",
        "",
        f"The figures are computed from {files} files of raw samples in the result folder, and this text and its plots",
        "from that folder alone: the same folder gives the same bytes. The method is in `benchmarks/README.md`.",
        "",
        "```text",
        f"make bench{quick} OUT=dir",
        "make bench-compare A=dir B=dir",
        "```",
    ]
