"""Delays stay within what the author allowed and do not depend on when or where they are computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ninelives.retry import RetryPolicy

policies = st.builds(
    RetryPolicy,
    delay_s=st.floats(0, 1e6),
    factor=st.floats(1, 1000),
    delay_max_s=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
)


@given(policies, st.integers(1, 1_000_000), st.text(st.characters(exclude_categories=())))
def test_delay_is_bounded_and_reproducible(policy: RetryPolicy, attempt: int, key: str) -> None:
    delay_ms = policy.delay_ms(attempt, key)
    assert 0 <= delay_ms <= round(policy.delay_max_s * 1_000)
    assert policy.delay_ms(attempt, key) == delay_ms
    capped_s = policy.delay_max_s if attempt > 400 and policy.factor > 100 and policy.delay_s > 1e-9 else None
    if capped_s is not None:
        assert delay_ms >= capped_s * (1 - policy.jitter) * 1_000 - 1


def test_jitter_spreads_over_its_whole_range() -> None:
    policy = RetryPolicy(delay_s=1.0, jitter=0.2)
    delays_ms = [policy.delay_ms(1, f"instance-{number}") for number in range(2_000)]
    assert 800 <= min(delays_ms) < 805
    assert 1_195 < max(delays_ms) <= 1_200
    assert 990 < sum(delays_ms) / len(delays_ms) < 1_010
