"""The spine of the rig: one run from nothing to a verdict, as a list of verbs."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import ninelives_rig.judging as judging
from ninelives_rig.campaign import Arm, Campaign
from ninelives_rig.cluster.ladder import open_server
from ninelives_rig.engines import load_engine
from ninelives_rig.engines.base import Engine
from ninelives_rig.environment import describe_commit, describe_environment, read_server_settings
from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.writer import BundleWriter
from ninelives_rig.nodes import fork_server
from ninelives_rig.progress import Display
from ninelives_rig.refusal import Refused
from ninelives_rig.rundir import RunDirectory
from ninelives_rig.schemas import drop_left, schema_prefix
from ninelives_rig.stage import Rig, collect, disturb, drain, heal, register, start_nodes


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


def run(request: Request, display: Display) -> judging.Outcome:
    """Run a campaign and return its outcome; the bundle is at ``request.out``.

    Raises what ``prepare`` refuses, and what breaks the rig itself. An interruption ends every process and gives an
    INCONCLUSIVE outcome.
    """
    with prepare(request, display) as rig:
        try:
            for arm in rig.arms:
                with register(rig, arm) as stage:
                    start_nodes(stage)
                    disturb(stage)
                    heal(stage)
                    drain(stage)
                    collect(stage)
        except KeyboardInterrupt:
            return judging.abort(rig.bundle, rig.manifest, "interrupted")
        except Exception as error:
            judging.mark_broken(rig.bundle, rig.manifest, error)
            raise
        seal(rig.bundle.root)
        if not request.judged:
            return judging.leave(rig.bundle.root)
        display.enter_phase("judge")
        outcome = judging.assess(rig.bundle.root)
        judging.report(rig.bundle.root, display)
        return outcome


@contextmanager
def prepare(request: Request, display: Display) -> Iterator[Rig]:
    """Take the output directory, open a server, warm up the fork server, write the manifest; undo it all at the end."""
    engine = load_engine(request.engine)
    arms, skipped = _applicable(request.campaign, engine)
    with ExitStack() as stack:
        stack.enter_context(_termination_as_interrupt())
        bundle = BundleWriter(request.out)
        stack.callback(bundle.close)
        run_directory = stack.enter_context(RunDirectory.create(keep=request.keep))
        display.say(f"evidence goes to {request.out}")
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
        for line in server.report.lines():
            display.say(line)
        for name in drop_left(server.dsn, request.schema):
            display.say(f"schema {name} of a run that was killed has been dropped")
        manifest = _manifest(request, arms, skipped, read_server_settings(server.dsn), server.report.as_dict())
        bundle.manifest(manifest)
        yield Rig(
            campaign=request.campaign,
            arms=arms,
            engine=engine,
            seed=request.seed,
            server=server,
            schema=schema_prefix(request.schema, request.keep),
            run_directory=run_directory,
            bundle=bundle,
            display=stack.enter_context(display),
            manifest=manifest,
            keep=request.keep,
            delivery=request.delivery,
            node_extra=dict(request.node_extra),
        )


def _applicable(campaign: Campaign, engine: Engine) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """Part the arms that this engine can run from those that ask for what it does not declare."""
    arms, skipped = [], {}
    for arm in campaign.arms:
        reason = _missing(arm, engine)
        if reason:
            skipped[arm.name] = reason
        else:
            arms.append(arm)
    if not arms:
        raise Refused(f"engine {engine.name!r} can run no arm of {campaign.name!r}: {next(iter(skipped.values()))}")
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


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and a lost terminal like Ctrl-C: clean up, then end."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
