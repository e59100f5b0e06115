"""The mutants that change the order or the meaning of what a node, a client or the rig does, as edits of functions.

Slowness is no mutant: it holds up a place where any machine may be slow, or lets a node take less at once, so that a
short scenario meets a race that would otherwise take hours. A scenario that needs it is run with it first without its
mutant, and has to pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from ninelives_rig.sabotage.planting import CodeEdit, Edit

_LANE = "ninelives.store.lane:Lane"
_CONTROL = "ninelives.store.control:Control"
_ACTIVATION = "ninelives.activation:Activation"
_NODE = "ninelives.node:Node"
_CLAIMER = "ninelives.claimer:Claimer"

_RESEND = """        elif isinstance(answer, Lost):
            self._again(rows)
"""
_ANNOUNCE = """    refusal = await self._announce(attempt)
    if refusal is not None:
        return refusal
"""
_SETTLE = "    return await self._settled(attempt, result, _COMMITTED)\n"
_SIGNAL_AT_ONCE = """    results = await self._ask([(b"signal", values), notify])
    outcome = _text(results[0], 0, 0)
"""
_SIGNAL_APART = """    await self._ask([(b"wake", (instance_id,))])
    await asyncio.sleep(0.8)
    results = await self._ask([(b"signal", values), notify])
    outcome = _text(results[0], 0, 0)
"""
_GUARD = '    guard: Statement = (b"signal_guard", (self._start_lock,))\n'
_EARLY_GUARDED = """    results = await self._ask([guard, (b"wake", (instance_id,)), (b"signal_early", values), notify])
    return _text(results[2], 0, 0)
"""
_EARLY_BARE = """    results = await self._ask([(b"signal_early", values)])
    return _text(results[0], 0, 0)
"""
_CLAIM = "taken = await node.control.claim(session_id, list(node.plan_ids), limits)\n"
_HELPERS = "__import__('ninelives_rig.sabotage.helpers', fromlist=['helpers'])"

_NO_AUDIT = (CodeEdit(f"{_NODE}._audit_loop", "for instance_id, token in ripe:", "for instance_id, token in ():"),)

CODE_MUTANTS: Mapping[str, tuple[Edit, ...]] = {
    "one-verdict-per-batch": (
        CodeEdit(
            "ninelives.store.batches:settle_commit",
            "    refused = []\n",
            "    if inside:\n        inside = set(range(1, len(rows) + 1))\n    refused = []\n",
        ),
    ),
    "commit-acknowledged-early": (
        CodeEdit(
            f"{_LANE}.submit",
            "    waiting = self._waiting.get(type(row))\n",
            "    if isinstance(row, StepCommit) and not row.answered.done():\n"
            "        row.settle(Verdict.COMMITTED)\n"
            "        self._loop.call_later(0.05, self.submit, row)\n"
            "        return\n"
            "    waiting = self._waiting.get(type(row))\n",
        ),
    ),
    "lost-batch-not-resent": (
        CodeEdit(f"{_LANE}._send", _RESEND, "        elif isinstance(answer, Lost):\n            pass\n"),
    ),
    "lost-batch-taken-as-success": (
        CodeEdit(
            f"{_LANE}._send",
            _RESEND,
            "        elif isinstance(answer, Lost):\n"
            "            for row in rows:\n"
            "                row.settle(Verdict.COMMITTED)\n",
        ),
    ),
    "no-audit": _NO_AUDIT,
    "no-audit-of-starts": _NO_AUDIT,
    "rerun-committed-step": (
        CodeEdit(
            "ninelives.recall:Recall.restore",
            "for step in claimed.steps:",
            "for step in claimed.steps[: -1 if claimed.takeover else None]:",
        ),
    ),
    "claim-after-read": (
        CodeEdit(
            f"{_CLAIMER}._claim",
            "        session_id = node.session_id\n",
            f"        peeked = await {_HELPERS}.peek(node)\n        session_id = node.session_id\n",
        ),
        CodeEdit(f"{_CLAIMER}._claim", _CLAIM, f"{_CLAIM}        taken = {_HELPERS}.forget(taken, peeked)\n"),
    ),
    "intent-after-effect": (
        CodeEdit(f"{_ACTIVATION}._at_most_once", _ANNOUNCE, ""),
        CodeEdit(f"{_ACTIVATION}._at_most_once", _SETTLE, _ANNOUNCE + _SETTLE),
    ),
    "reconcile-trusts-not-seen": (
        CodeEdit("ninelives_rig.engines.reference:_reconcile", "tools.sink.void(", "tools.sink.read("),
    ),
    "wake-before-signal": (CodeEdit(f"{_CONTROL}.signal", _SIGNAL_AT_ONCE, _SIGNAL_APART),),
    "early-signal-without-lock": (CodeEdit(f"{_CONTROL}.signal", _EARLY_GUARDED, _EARLY_BARE),),
    "resume-without-wake": (
        CodeEdit(f"{_CONTROL}.resume", '(b"wake", (instance_id,))', '(b"pause_lock", (instance_id,))'),
    ),
    "start-in-two-transactions": (
        CodeEdit(
            "ninelives.client:Client._started",
            "    return verdict\n",
            f"    await {_HELPERS}.insert_wake(self, row, verdict)\n    return verdict\n",
        ),
    ),
    "version-pin-ignored": (
        CodeEdit(
            f"{_NODE}.activate",
            "self._plans[claimed.plan_id]",
            "self._plans.get(claimed.plan_id) or next(iter(self._plans.values()))",
        ),
    ),
    "freeze-not-delivered": (
        CodeEdit("ninelives_rig.nemesis.processes:Freeze.strike", "node.identity.kill(signal.SIGSTOP)", "pass"),
    ),
    "cut-not-delivered": (
        CodeEdit(
            "ninelives_rig.nemesis.lines:_LineNemesis.strike",
            "lines.set(node.order.slot, self.state, *self.directions)",
            "pass",
        ),
    ),
    "witness-loses-lines": (
        CodeEdit(
            "ninelives_rig.witness:Witness.effect",
            "    self._file.append(record)\n",
            "    if self._seq % 5 != 3:\n        self._file.append(record)\n",
        ),
    ),
}

SLOWNESS: Mapping[str, tuple[Edit, ...]] = {
    "slow-claim": (CodeEdit(f"{_CLAIMER}._claim", _CLAIM, f"await asyncio.sleep(0.6)\n        {_CLAIM}"),),
    "few-takeovers": (
        CodeEdit(f"{_CLAIMER}._limits", "min(RECOVERY_ROWS_MAX, ", "min(3, "),
        CodeEdit(f"{_CLAIMER}._claim", "return more_orphans or", "return"),
    ),
    "slow-lane": (CodeEdit(f"{_LANE}.submit", "call_soon(self._flush)", "call_later(0.15, self._flush)"),),
    "slow-park": (
        CodeEdit(
            f"{_ACTIVATION}._rest",
            "    verdict = await self._write(row)\n",
            "    await asyncio.sleep(2.0)\n    verdict = await self._write(row)\n",
        ),
    ),
    "early-signal-in-between": (
        CodeEdit(f"{_CONTROL}.signal", _GUARD, f"    await {_HELPERS}.parked(self, instance_id)\n{_GUARD}"),
    ),
}
