"""The audit may judge a lease only when no claim that may have taken it is still unanswered."""

from __future__ import annotations

import pytest

from ninelives.outstanding import Outstanding


def test_a_mark_is_settled_when_every_claim_before_it_is_answered() -> None:
    claims = Outstanding()
    with claims.claim():
        mark = claims.mark()
        assert not claims.settled_before(mark)
    assert claims.settled_before(mark)


def test_a_claim_behind_the_mark_does_not_matter() -> None:
    claims = Outstanding()
    mark = claims.mark()
    with claims.claim():
        assert claims.settled_before(mark)
        assert not claims.settled_before(claims.mark())


def test_claims_that_overlap_are_told_apart() -> None:
    claims = Outstanding()
    first, second = claims.claim(), claims.claim()
    first.__enter__()
    between = claims.mark()
    second.__enter__()
    behind = claims.mark()
    second.__exit__(None, None, None)
    assert not claims.settled_before(between) and not claims.settled_before(behind)
    first.__exit__(None, None, None)
    assert claims.settled_before(between) and claims.settled_before(behind)


def test_a_claim_that_failed_is_answered() -> None:
    claims = Outstanding()
    with pytest.raises(RuntimeError), claims.claim():
        raise RuntimeError("no answer")
    assert claims.settled_before(claims.mark())


def test_without_a_mark_nothing_is_settled() -> None:
    assert not Outstanding().settled_before(None)
