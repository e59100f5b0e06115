"""Whatever is thrown at the codec either round-trips exactly or is refused; error texts are always recordable."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ninelives import codec
from ninelives.errors import PayloadRefused

text = st.text(st.characters(exclude_categories=()))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63 - 2, 2**64 + 2)
    | st.floats()
    | st.sampled_from([-0.0, 1e22, 2**53 + 1, -(2**63), -(2**63) - 1, 5e-324, 1.7976931348623157e308])
    | text
)
values = st.recursive(
    scalars | st.binary(max_size=3) | st.dates() | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(text | st.integers(), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def storable(value: Any) -> bool:
    """The rule, said the slow way."""
    if value is None or type(value) is bool:
        return True
    if type(value) is int:
        return bool(-(2**63) <= value < 2**63)
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is str:
        return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    if type(value) is list:
        return all(map(storable, value))
    return type(value) is dict and all(type(k) is str and storable(k) and storable(v) for k, v in value.items())


@given(values)
def test_value_round_trips_exactly_or_is_refused(value: Any) -> None:
    try:
        data = codec.encode(value, limit_bytes=1_000_000, what="value")
    except PayloadRefused as refused:
        assert not storable(value)
        assert refused.path.startswith("$")
        recorded = codec.error_text(refused)
        assert codec.decode(codec.encode(recorded, limit_bytes=1_000_000, what="error")) == recorded
        return
    assert storable(value)
    assert repr(codec.decode(data)) == repr(value)
    assert b"\\u0000" not in data.replace(b"\\\\", b"")
    assert codec.encode(codec.decode(data), limit_bytes=len(data), what="value") == data


@given(text, text)
def test_error_text_is_always_recordable(message: str, cause: str) -> None:
    error = ValueError(message)
    error.__cause__ = KeyError(cause)
    recorded = codec.error_text(error)
    assert codec.decode(codec.encode(recorded, limit_bytes=1_000_000, what="error")) == recorded
    if storable(message) and len(message) <= codec.ERROR_TEXT_CHARS_MAX:
        assert recorded["message"] == message
