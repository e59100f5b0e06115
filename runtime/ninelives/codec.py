"""Payloads to bytes and back, without loss: what cannot round-trip is refused with the path of the value.

The hot path is one orjson call, one flat look at the types and one byte search. Only when one of them
objects does the slow walk run, which finds the place and words the refusal.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import orjson

from .errors import NinelivesError, PayloadRefused, PermanentError

DEPTH_MAX = 100
"""Nesting allowed in one payload. orjson stops at 254, and a state bag wraps payloads once more."""

INT_MIN = -(2**63)
INT_END = 2**63
ERROR_TEXT_CHARS_MAX = 4_000

# Left to themselves these would be converted silently; passed through they are refused as unknown.
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_BACKSLASH = b"\\"
_ESCAPED_NUL = b"\\u0000"
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")

_dumps = orjson.dumps
_loads = orjson.loads


def encode(value: object, *, limit_bytes: int, what: str) -> bytes:
    """Encode a JSON value as compact UTF-8 JSON that decodes to an equal value of the same types.

    `limit_bytes` bounds the encoded size, `what` names the payload in an error ("result of step 'pay'").
    Raises PayloadRefused with the path for anything that would be refused by the store or silently changed:
    NaN, infinities, NUL, lone surrogates, integers beyond signed 64 bits, keys that are not str, tuples and
    every other type, nesting deeper than DEPTH_MAX, more bytes than the limit.
    """
    try:
        data = _dumps(value, None, _STRICT)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(value, what, str(error)) from None
    kind = type(value)
    if not _is_plain(value if kind is dict or kind is list else (value,), DEPTH_MAX):
        raise _refusal(value, what, "it would not survive encoding")
    # One byte is found ten times as fast as six, and most payloads have no escape at all.
    if _BACKSLASH in data and _ESCAPED_NUL in data and (refusal := _find(value, what)) is not None:
        raise refusal
    if len(data) > limit_bytes:
        raise PayloadRefused(
            "$",
            f"{len(data)} bytes encoded, the limit is {limit_bytes}; store it elsewhere and pass a reference",
            what,
        )
    return data


def decode(data: bytes | bytearray | memoryview | str) -> Any:
    """Decode what `encode` wrote. Raises PayloadRefused when the text is not JSON (a damaged row)."""
    try:
        return _loads(data)
    except orjson.JSONDecodeError as error:
        raise PayloadRefused("$", f"stored text is not JSON ({error}); the row was changed by hand") from None


def copy(value: Any) -> Any:
    """Return an independent deep copy of a value that `encode` accepts (far faster than copy.deepcopy)."""
    return _loads(_dumps(value))


def fresh(value: Any) -> Any:
    """Return what nobody else holds: an encoded payload (bytes, which no JSON value is) decoded, a value copied."""
    return decode(value) if type(value) is bytes else copy(value)


def error_text(error: BaseException) -> dict[str, Any]:
    """Describe an exception as a dict that `encode` always accepts, whatever is in its text.

    Keys: `code`, `type`, `message` (NUL and lone surrogates written out visibly, at most ERROR_TEXT_CHARS_MAX
    characters), `permanent` (only when True), `cause` (only when there is one: type and message).
    """
    code = error.code if isinstance(error, NinelivesError) else "step.raised"
    described: dict[str, Any] = {
        "code": code,
        "type": printable(type(error).__qualname__),
        "message": _message(error),
    }
    if isinstance(error, PermanentError):
        described["permanent"] = True
    cause = error.__cause__
    if cause is not None:
        described["cause"] = {"type": printable(type(cause).__qualname__), "message": _message(cause)}
    return described


def printable(text: str) -> str:
    """Return the text with NUL and lone surrogates written as `\\x00` and `\\udXXX`, cut to a bound."""
    if len(text) > ERROR_TEXT_CHARS_MAX:
        text = f"{text[:ERROR_TEXT_CHARS_MAX]}... ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _message(error: BaseException) -> str:
    try:
        # str() of a str subclass may return the subclass; slicing and joining in printable() makes it plain.
        return printable("".join(str(error)))
    except Exception as broken:
        return f"(its text could not be read: {type(broken).__name__})"


def _is_plain(container: Any, depth: int) -> bool:
    """Tell whether every value is of an exact JSON type, finite and in range. Keys were checked by orjson."""
    for item in container.values() if type(container) is dict else container:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if item >= INT_END:
                return False
        elif kind is float:
            if item - item != 0.0:  # NaN and the infinities only
                return False
        elif kind is dict or kind is list:
            if depth <= 1 or not _is_plain(item, depth - 1):
                return False
        else:
            return False
    return True


def _refusal(value: object, what: str, otherwise: str) -> PayloadRefused:
    return _find(value, what) or PayloadRefused("$", printable(otherwise), what)


def _find(value: object, what: str) -> PayloadRefused | None:
    """Walk the value in order and word the first refusal; None when nothing is wrong."""
    pending: list[tuple[str, object, int]] = [("$", value, 0)]
    while pending:
        path, item, depth = pending.pop()
        reason = _objection(item)
        if reason is None and type(item) in (dict, list) and depth >= DEPTH_MAX:
            path, reason = f"{path[:60]}...", f"nested deeper than {DEPTH_MAX} levels; flatten it"
        if reason is not None:
            return PayloadRefused(path, reason, what)
        inner: list[tuple[str, object, int]] = []
        if type(item) is dict:
            for key, below in item.items():
                if (reason := _key_objection(key)) is not None:
                    return PayloadRefused(path, reason, what)
                step = f".{key}" if _PLAIN_KEY.match(key) else f"[{key!r}]"
                inner.append((path + step, below, depth + 1))
        elif type(item) is list:
            inner.extend((f"{path}[{index}]", below, depth + 1) for index, below in enumerate(item))
        pending.extend(reversed(inner))
    return None


def _key_objection(key: object) -> str | None:
    if type(key) is not str:
        return f"key {printable(repr(key))} is a {type(key).__name__}; JSON keys must be str"
    reason = _text_objection(key)
    return None if reason is None else f"key {key!r} {reason}"


def _text_objection(text: str) -> str | None:
    if "\0" in text:
        return "contains NUL (U+0000), which PostgreSQL cannot store; remove or escape it"
    if _SURROGATE.search(text):
        return "contains a lone surrogate, which is not valid Unicode; decode its source with errors='replace'"
    return None


def _objection(item: object) -> str | None:
    """Say why one value, apart from what it contains, cannot be stored; None when it can."""
    kind = type(item)
    if item is None or kind in (bool, dict, list):
        return None
    if kind is str:
        assert isinstance(item, str)
        return _text_objection(item)
    if kind is int:
        assert isinstance(item, int)
        if INT_MIN <= item < INT_END:
            return None
        return f"integer of {item.bit_length()} bits is beyond signed 64 bits; pass it as a str"
    if kind is float:
        assert isinstance(item, float)
        return None if isfinite(item) else f"{item!r} is not a JSON number; pass None or a str"
    advice = "pass a list" if isinstance(item, tuple) else "convert it to str, number, bool, list or dict"
    return f"a {kind.__module__}.{kind.__qualname__} would not come back as the same type; {advice}"
