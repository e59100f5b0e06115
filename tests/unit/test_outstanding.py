"""The audit may judge a lease only when no claim that may have taken it is still unanswered."""

from __future__ import annotations

from ninelives.outstanding import Outstanding


def test_a_mark_is_settled_when_every_claim_before_it_is_answered() -> None:
    claims = Outstanding()
    claim = claims.begin()
    mark = claims.mark()
    assert not claims.settled_before(mark)
    claims.end(claim)
    assert claims.settled_before(mark)


def test_a_claim_behind_the_mark_does_not_matter() -> None:
    claims = Outstanding()
    mark = claims.mark()
    claims.begin()
    assert claims.settled_before(mark)
    assert not claims.settled_before(claims.mark())


def test_claims_that_overlap_are_told_apart() -> None:
    claims = Outstanding()
    first = claims.begin()
    between = claims.mark()
    second = claims.begin()
    behind = claims.mark()
    claims.end(second)
    assert not claims.settled_before(between) and not claims.settled_before(behind)
    claims.end(first)
    assert claims.settled_before(between) and claims.settled_before(behind)


def test_without_a_mark_nothing_is_settled() -> None:
    assert not Outstanding().settled_before(None)
