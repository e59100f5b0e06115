"""What PostgreSQL does by itself, on the same server in the same run: the references that ratios are to."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop
from psycopg.conninfo import conninfo_to_dict

from ninelives import queries
from ninelives.store import batches
from ninelives.store.rows import StepCommit
from ninelives.wire import Answer, Wire
from ninelives_bench.committer_population import TOKEN, Population, count_steps, insert_population
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.suite_progress import say
from ninelives_rig.cluster import binaries

_PAGE: Final = 8192
_FILE_PAGES: Final = 2048

# One transaction for each commit, which does what one row of the group commit does: lock, check the fence, count the
# sequence on, insert the step.
_TRANSACTION: Final = """\
\\set n random(0, {last})
begin;
select next_sequence as seq from ninelives.flow_instance
 where instance_id = ('{prefix}' || lpad(to_hex(:n::bigint), 12, '0'))::uuid for no key update \\gset
update ninelives.flow_instance
   set next_sequence = next_sequence + 1, version = version + 1, claims = 0, updated_at = now()
 where instance_id = ('{prefix}' || lpad(to_hex(:n::bigint), 12, '0'))::uuid
   and fence = {token} and finished_at is null;
insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id, attempt,
    scope, capability_id, capability_version, outcome, result)
values (('{prefix}' || lpad(to_hex(:n::bigint), 12, '0'))::uuid, :seq, {token}, 0, now(), :seq, 1,
    '', 'bench.step', '1', 'Success', '{result}');
commit;
"""

# The same work as one statement and one round trip: the best that one transaction for each commit can do.
_STATEMENT: Final = """\
\\set n random(0, {last})
with u as (
    update ninelives.flow_instance
       set next_sequence = next_sequence + 1, version = version + 1, claims = 0, updated_at = now()
     where instance_id = ('{prefix}' || lpad(to_hex(:n::bigint), 12, '0'))::uuid
       and fence = {token} and finished_at is null
    returning instance_id, next_sequence - 1 as seq
)
insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id, attempt,
    scope, capability_id, capability_version, outcome, result)
select instance_id, seq, {token}, 0, now(), seq, 1, '', 'bench.step', '1', 'Success', '{result}' from u;
"""


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `reference` of the summary.

    Raises RuntimeError when pgbench fails, or committed something else than it counted.
    """
    found: dict[str, Any] = {}
    for name, script in (("pgbench", _TRANSACTION), ("pgbench_one_statement", _STATEMENT)):
        found[name] = _pgbench(ground, plan, script)
        say(f"reference {name}: {found[name]['per_s']:,.0f} transactions/s with {found[name]['clients']} clients")
    found["raw_statement"] = _raw_statement(ground, plan)
    say(f"reference raw statement: {found['raw_statement']['per_s']:,.0f} rows/s on one connection")
    syncs = fdatasync_ms(ground.server.data.parent, plan.reference.fdatasync_count)
    samples.save("fdatasync", {"ms": syncs})
    found["fdatasync_ms"] = distribution(syncs)
    say(f"reference fdatasync: p50 {found['fdatasync_ms']['p50']:.3f} ms")
    return found


def _pgbench(ground: Ground, plan: Plan, script: str) -> dict[str, Any]:
    server, order = ground.server, plan.reference
    program = binaries.find(server.version, server.account, server.run.path.parent.parent).program("pgbench")
    with ground.database() as dsn, tempfile.TemporaryDirectory() as folder:
        population = insert_population(dsn, plan.b7.population)
        result = '"' + "r" * (plan.b7.result_bytes - 2) + '"'
        text = script.format(last=population.count - 1, prefix=population.prefix, token=TOKEN, result=result)
        path = Path(folder, "commit.sql")
        path.write_text(text)
        where = conninfo_to_dict(dsn)
        command = [
            str(program), "--no-vacuum", "-M", "prepared", "-c", str(order.pgbench_clients), "-j", "2",
            "-T", str(order.pgbench_s), "--random-seed", str(plan.seed), "-f", str(path),
            "-h", str(where["host"]), "-p", str(where["port"]), "-U", str(where["user"]), str(where["dbname"]),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=order.pgbench_s + 60, check=False)
        described = parse_pgbench(done.stdout) if done.returncode == 0 else None
        if described is None:
            raise RuntimeError(f"pgbench failed with exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        steps = count_steps(dsn, population)
    if steps != described["transactions"]:
        raise RuntimeError(f"pgbench counts {described['transactions']} transactions, the journal has {steps} steps")
    return {"clients": order.pgbench_clients, "seconds": order.pgbench_s, **described}


def parse_pgbench(said: str) -> dict[str, Any] | None:
    """Read transactions, rate and mean latency from what pgbench prints; None when it is not a result."""
    transactions = re.search(r"number of transactions actually processed: (\d+)", said)
    rate = re.search(r"tps = ([\d.]+) \(without initial connection time\)", said)
    latency = re.search(r"latency average = ([\d.]+) ms", said)
    if transactions is None or rate is None or latency is None or int(transactions[1]) == 0:
        return None
    return {"transactions": int(transactions[1]), "per_s": float(rate[1]), "latency_ms": float(latency[1])}


def _raw_statement(ground: Ground, plan: Plan) -> dict[str, Any]:
    with ground.database() as dsn, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        population = insert_population(dsn, plan.b7.population)
        rows, seconds = runner.run(_drive_raw(dsn, population, plan))
        steps = count_steps(dsn, population)
    if steps != rows:
        raise RuntimeError(f"the raw statement was answered for {rows} rows, the journal has {steps}")
    return {"rows": plan.reference.raw_rows, "committed": rows, "seconds": seconds, "per_s": rows / seconds}


async def _drive_raw(dsn: str, population: Population, plan: Plan) -> tuple[int, float]:
    """The runtime's own commit, over and over on one connection; the next is on its way while one is executed."""
    texts = queries.load("ninelives")
    names = ("commit_lock", "commit_rows")
    wire = await Wire.open(dsn, {name: texts[name] for name in names}, application_name="ninelives bench raw")
    size, ids = plan.reference.raw_rows, population.ids
    result = b'"' + b"r" * (plan.b7.result_bytes - 2) + b'"'
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    began = time.perf_counter()
    until = began + plan.reference.raw_s
    sent = answered = 0

    def send() -> None:
        nonlocal sent
        lap, place = divmod(sent, len(ids) // size)
        sent += 1
        rows = [
            StepCommit(one, TOKEN, done, b"", lap, 1, b"bench.step", b"1", b"Success", result, None, 0)
            for one in ids[place * size : (place + 1) * size]
        ]
        wire.send(batches.commit(rows, careful=False), on_answer)

    def on_answer(answer: Answer) -> None:
        nonlocal answered
        if not isinstance(answer, list):
            done.set_exception(RuntimeError(f"the raw statement failed: {answer.message}"))
            return
        answered += 1
        if time.perf_counter() < until:
            send()
        elif answered == sent and not done.done():
            done.set_result(None)

    send()
    send()
    await done
    seconds = time.perf_counter() - began
    wire.close()
    return answered * size, seconds


def fdatasync_ms(folder: Path, count: int) -> Any:
    """Return how long each of ``count`` syncs of one written page takes on the filesystem of the server's data."""
    page = os.urandom(_PAGE)
    taken = np.empty(count)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="fdatasync-") as file:
        # Allocated beforehand, as a segment of the WAL is: what is synced is data, not the file's length.
        file.write(page * _FILE_PAGES)
        file.flush()
        os.fsync(file.fileno())
        for index in range(count):
            began = time.perf_counter()
            os.pwrite(file.fileno(), page, index % _FILE_PAGES * _PAGE)
            os.fdatasync(file.fileno())
            taken[index] = (time.perf_counter() - began) * 1e3
    return taken
