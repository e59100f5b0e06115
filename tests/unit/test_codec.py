"""Payloads round-trip with their types or are refused at the call, with the path."""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from ninelives import codec
from ninelives.errors import PayloadRefused, PermanentError, StepTimedOut

LIMIT = 100_000


def encode(value: object) -> bytes:
    return codec.encode(value, limit_bytes=LIMIT, what="input")


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, order of keys and sign of zero."""
    return repr(left) == repr(right) and type(left) is type(right)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Order:
    sku: str


def shown(value: object) -> str:
    """The id of a test: without an address in memory, which would differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1e22, 1e-300, 1.5, 5e-324,
        "", "é", "😀", "\\u0000", "\\ud800", "line\nbreak\t\x01", [], {}, [[]], {"": None}, {"b": 1, "a": 2},
        {"z": [1, 1.0, "1", True, None], "a": {"b": {}}},
    ],
    ids=repr,
)  # fmt: skip
def test_value_round_trips_with_its_type(value: object) -> None:
    assert same(codec.decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), float("-inf"), 2**63, 2**64, -(2**63) - 1, "a\0b", "\ud800", "x\udfff",
        (1, 2), Pair(1, 2), {1, 2}, frozenset(), b"bytes", bytearray(b"x"), Decimal("1"), 1j, object(), ...,
        datetime(2024, 1, 1, tzinfo=UTC), uuid.UUID(int=1), Colour.RED, Level.LOW, Text("x"), Order("a"), len,
    ],
    ids=shown,
)  # fmt: skip
@pytest.mark.parametrize("wrap", ["root", "list", "dict", "deep"])
def test_value_that_would_change_is_refused_with_its_path(value: object, wrap: str) -> None:
    wrapped, path = {
        "root": (value, "$"),
        "list": ([None, value], "$[1]"),
        "dict": ({"ok": None, "bad": value}, "$.bad"),
        "deep": ({"lines": [1, {"a b": {"price": value}}]}, "$.lines[1]['a b'].price"),
    }[wrap]
    with pytest.raises(PayloadRefused) as refused:
        encode(wrapped)
    assert refused.value.path == path
    assert str(refused.value).startswith("input: $")
    # The refusal itself must be recordable.
    encode(codec.error_text(refused.value))


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1,), Text("k"), Colour.RED, "nul\0", "\ud800"], ids=repr)
def test_key_that_would_change_is_refused(key: object) -> None:
    with pytest.raises(PayloadRefused) as refused:
        encode({"outer": {key: 1}})
    assert refused.value.path == "$.outer"
    encode(codec.error_text(refused.value))


def test_order_of_keys_is_kept_byte_for_byte() -> None:
    assert encode({"b": 1, "a": 2, "c": -0.0}) == b'{"b":1,"a":2,"c":-0.0}'


def test_repeated_key_in_stored_text_decodes_to_the_last() -> None:
    assert codec.decode(b'{"a":1,"a":2}') == {"a": 2}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_bounded_at_a_stated_depth() -> None:
    deepest = nested(codec.DEPTH_MAX)
    assert codec.decode(encode(deepest)) == deepest
    # A bag wraps payloads: what passes must still encode inside further containers.
    assert codec.copy({"bag": [["", [[1, deepest]]]]}) == {"bag": [["", [[1, deepest]]]]}
    for levels in (codec.DEPTH_MAX + 1, 300, 50_000):
        with pytest.raises(PayloadRefused, match="nested deeper than 100 levels"):
            encode(nested(levels))


def test_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(PayloadRefused, match="nested deeper"):
        encode({"ring": ring})


def test_size_limit_is_on_encoded_bytes() -> None:
    assert len(codec.encode("x" * 98, limit_bytes=100, what="result")) == 100
    with pytest.raises(PayloadRefused, match=r"result: \$: 101 bytes encoded, the limit is 100"):
        codec.encode("x" * 99, limit_bytes=100, what="result")


def test_damaged_row_is_a_typed_refusal() -> None:
    for text in (b"", b"{", b"NaN", b"\xff", b'"\\ud800"'):
        with pytest.raises(PayloadRefused, match="not JSON"):
            codec.decode(text)


def test_copy_is_independent() -> None:
    value = {"lines": [{"sku": "a"}]}
    copied = codec.copy(value)
    copied["lines"][0]["sku"] = "b"
    assert value == {"lines": [{"sku": "a"}]}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("plain"), "plain"),
        (ValueError("nul\0 and \ud800 and \udfff"), "nul\\x00 and \\ud800 and \\udfff"),
        (ValueError(b"\x00\xff"), "b'\\x00\\xff'"),
        (ValueError(Text("odd")), "odd"),
        (ValueError(), ""),
        (Unprintable(), "(its text could not be read: RuntimeError)"),
    ],
    ids=["plain", "nul", "bytes", "subclass", "empty", "unprintable"],
)
def test_error_text_is_always_recordable(error: Exception, message: str) -> None:
    described = codec.error_text(error)
    assert described["message"] == message
    assert codec.decode(encode(described)) == described


def test_error_text_is_bounded_and_tells_what_decides_a_retry() -> None:
    long = codec.error_text(ValueError("x" * 1_000_000))
    assert len(long["message"]) < codec.ERROR_TEXT_CHARS_MAX + 50
    assert "permanent" not in long
    assert long["code"] == "step.raised"
    assert codec.error_text(PermanentError("no"))["permanent"] is True
    assert codec.error_text(StepTimedOut.after("pay", 2, 1.5)) == {
        "code": "step.timed_out",
        "type": "StepTimedOut",
        "message": "step 'pay', attempt 2: timed out after 1.5 s; raise timeout_s or make the body faster",
    }


def test_error_text_names_the_cause() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("in\0ner")
    assert codec.error_text(error)["cause"] == {"type": "KeyError", "message": "'in\\x00ner'"}
