"""The spine of the rig: one run from nothing to a verdict, as a list of verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg

import ninelives_rig.judging as judging
from ninelives_rig.campaign import Arm, Campaign
from ninelives_rig.cluster.dsn import impatient
from ninelives_rig.cluster.ladder import open_server
from ninelives_rig.engines import load_engine
from ninelives_rig.engines.base import Engine
from ninelives_rig.environment import describe_commit, describe_environment, read_server_settings
from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.writer import BundleWriter
from ninelives_rig.interruption import Interruption, interruptible
from ninelives_rig.kept import Kept
from ninelives_rig.nodes import fork_server
from ninelives_rig.progress import Display
from ninelives_rig.refusal import Refused
from ninelives_rig.rundir import RunDirectory
from ninelives_rig.schedule import SEED_MAX
from ninelives_rig.schemas import drop_left, schema_prefix
from ninelives_rig.stage import Rig, arm_schema, collect, disturb, drain, heal, register, start_nodes

_SCHEMA_BYTES_MAX = 30


@dataclass(frozen=True)
class Request:
    """What the user asked for. Without ``judged`` the sealed bundle is left to somebody else."""

    campaign: Campaign
    engine: str
    seed: int
    out: Path
    dsn: str | None = None
    postgres: str | None = None
    schema: str = "ninelives_rig"
    keep: bool = False
    allow_weak: bool = False
    delivery: str = "sigkill"
    node_extra: Mapping[str, str] = field(default_factory=dict)
    judged: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SEED_MAX:
            raise Refused(f"seed {self.seed} is not a whole number from 0 to {SEED_MAX}")
        # PostgreSQL cuts names after 63 bytes, and the rest of a schema's name says which run made it.
        if not 0 < len(self.schema.encode(errors="replace")) <= _SCHEMA_BYTES_MAX:
            raise Refused(f"--schema {self.schema!r} is not a name of 1 to {_SCHEMA_BYTES_MAX} bytes")


def run(request: Request, display: Display) -> judging.Outcome:
    """Run a campaign and return its outcome; the bundle is at ``request.out``.

    Raises what ``prepare`` refuses, and what breaks the rig itself. An interruption ends every process and gives an
    INCONCLUSIVE outcome; one that comes when all evidence is there is what ``_judged`` says.
    """
    with interruptible() as interruption, prepare(request, display) as rig:
        try:
            for arm in rig.arms:
                with register(rig, arm) as stage:
                    start_nodes(stage)
                    disturb(stage)
                    heal(stage)
                    drain(stage)
                    collect(stage)
            interruption.sealing()
        except KeyboardInterrupt:
            return judging.abort(rig.bundle, rig.manifest, "interrupted")
        except Exception as error:
            interruption.ending()
            judging.mark_broken(rig.bundle, rig.manifest, error)
            raise
        seal(rig.bundle.root)
        if not request.judged:
            return judging.leave(rig.bundle.root)
        return _judged(rig, interruption)


def _judged(rig: Rig, interruption: Interruption) -> judging.Outcome:
    """Judge what is sealed, and report it.

    Who insists stops the judging: then the verdict is INCONCLUSIVE, and the bundle can be judged later. A report that
    is stopped changes no verdict.
    """
    root, display = rig.bundle.root, rig.display
    try:
        interruption.judging()
        display.enter_phase("judge")
        outcome = judging.assess(root)
    except KeyboardInterrupt:
        return judging.leave_unjudged(root, rig.manifest)
    try:
        judging.report(root, display)
        interruption.ending()
    except KeyboardInterrupt:
        display.say(f"no report: interrupted; `ninelives-rig report {root}` writes it")
    return outcome


@contextmanager
def prepare(request: Request, display: Display) -> Iterator[Rig]:
    """Open a server, warm up the fork server, take the output directory, write the manifest; undo it all at the end.

    The output directory is taken last: whatever is refused leaves the bundle that is there alone.
    """
    engine = load_engine(request.engine)
    arms, skipped = _applicable(request, engine)
    with ExitStack() as stack:
        kept = stack.enter_context(_told_at_the_end(display)) if request.keep else Kept()
        run_directory = stack.enter_context(RunDirectory.create())
        kept.directory = run_directory.path
        stack.enter_context(fork_server(engine, run_directory))
        server = stack.enter_context(
            open_server(
                run_directory,
                dsn=request.dsn,
                postgres=request.postgres,
                keep=request.keep,
                allow_weak=request.allow_weak,
            )
        )
        schema = schema_prefix(request.schema, request.keep)
        kept.server, kept.schemas = server, [arm_schema(schema, arms, arm) for arm in arms]
        for line in server.report.lines():
            display.say(line)
        _drop_left(server.dsn, request.schema, display)
        manifest = _manifest(request, arms, skipped, read_server_settings(server.dsn), server.report.as_dict())
        bundle = stack.enter_context(_bundle(request.out))
        bundle.manifest(manifest)
        display.say(f"evidence goes to {request.out}")
        yield Rig(
            campaign=request.campaign,
            arms=arms,
            engine=engine,
            seed=request.seed,
            server=server,
            schema=schema,
            run_directory=run_directory,
            bundle=bundle,
            display=stack.enter_context(display),
            manifest=manifest,
            keep=request.keep,
            delivery=request.delivery,
            node_extra=dict(request.node_extra),
        )


@contextmanager
def _told_at_the_end(display: Display) -> Iterator[Kept]:
    kept = Kept()
    try:
        yield kept
    finally:
        for line in kept.lines():
            display.say(line)


def _drop_left(dsn: str, schema: str, display: Display) -> None:
    try:
        for name in drop_left(impatient(dsn), schema):
            display.say(f"schema {name} of a run that was killed has been dropped")
    except psycopg.errors.LockNotAvailable:
        display.say("a schema of a run that was killed is in use and stays for now; see pg_locks for who uses it")


@contextmanager
def _bundle(out: Path) -> Iterator[BundleWriter]:
    """Take the output directory; one that was made for nothing is removed again."""
    made = not out.exists()
    bundle = BundleWriter(out)
    try:
        yield bundle
    finally:
        bundle.close()
        with suppress(OSError):  # A full disk leaves this, and it would make the directory look like somebody else's.
            (out / "manifest.json.draft").unlink(missing_ok=True)
        if made:
            with suppress(OSError):  # It holds something, as it should.
                out.rmdir()


def _applicable(request: Request, engine: Engine) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """Part the arms that can be run here from those that ask for what the engine or this run does not have."""
    arms, skipped = [], {}
    given = request.dsn is not None or request.postgres == "docker"
    for arm in request.campaign.arms:
        reason = _missing(arm, engine)
        if reason is None and arm.own_server and given:
            reason = "its faults are of a whole server, and this run has none of its own"
        if reason:
            skipped[arm.name] = reason
        else:
            arms.append(arm)
    if not arms:
        reason = next(iter(skipped.values()))
        raise Refused(f"engine {engine.name!r} can run no arm of {request.campaign.name!r}: {reason}")
    return tuple(arms), skipped


def _missing(arm: Arm, engine: Engine) -> str | None:
    lacking = arm.workload.effects - engine.capabilities.effects
    if lacking:
        return f"it does not offer the effect {', '.join(sorted(lacking))}"
    unknown = arm.features - engine.capabilities.features
    if unknown:
        return f"it does not offer {', '.join(sorted(unknown))}"
    for plan in arm.kill_plans:
        for position in (plan.position, plan.after):
            try:
                engine.capabilities.position(position or plan.position, arm.effect)
            except ValueError as error:
                return str(error)
    return None


def _manifest(
    request: Request,
    arms: tuple[Arm, ...],
    skipped: dict[str, str],
    server: dict[str, str],
    durability: dict[str, object],
) -> dict[str, object]:
    commit, dirty = describe_commit()
    first = arms[0]
    return {
        "schema": 1,
        "campaign": request.campaign.name,
        "engine": request.engine,
        "seed": request.seed,
        "commit": commit,
        "dirty": dirty,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": describe_environment(),
        "settings": {
            **server,
            "durability": durability,
            "ttl_s": first.ttl_s,
            "workers": first.workers,
            "recovery_nodes": first.recovery_nodes,
            "in_flight": first.in_flight,
            "flows_max": first.flows_max,
            "service_s": first.workload.steps[0].service_s,
        },
        "arms": [arm.name for arm in arms],
        "not_applicable": skipped,
    }
