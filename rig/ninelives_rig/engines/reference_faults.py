"""Faults of the reference engine's connections, planted from outside: answers that get lost.

A connection that breaks between the server's commit and the client's reading of the answer cannot be arranged by
pulling a cable, so the exchange's own answer is thrown away and the connection closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ninelives.wire import Answer, Lost, OnAnswer, Statement, Wire
from ninelives_rig.engines.base import LostAnswers
from ninelives_rig.recorder import Recorder


def lose_answers(planned: Sequence[LostAnswers], recorder: Recorder) -> None:
    """Let every connection of this process lose answers as planned; each loss is recorded."""
    if not planned:
        return
    counters = [(one, one.statement.encode(), count(1)) for one in planned]
    send = Wire.send

    def struck(statements: Sequence[Statement]) -> LostAnswers | None:
        for one, statement, numbers in counters:
            if any(name == statement for name, _ in statements) and next(numbers) % one.every == 0:
                return one
        return None

    def lossy(self: Wire, statements: Sequence[Statement], on_answer: OnAnswer) -> None:
        loss = None if self.lost else struck(statements)
        if loss is None:
            send(self, statements, on_answer)
            return
        if loss.when == "unsent":
            recorder.event("answer.lost", statement=loss.statement, when=loss.when)
            self.close()
            send(self, statements, on_answer)
            return

        def lost(answer: Answer) -> None:
            if isinstance(answer, list):
                recorder.event("answer.lost", statement=loss.statement, when=loss.when)
                self.close()
                answer = Lost("the answer was thrown away by the rig")
            on_answer(answer)

        send(self, statements, lost)

    Wire.send = lossy  # type: ignore[method-assign]  # planted from outside
