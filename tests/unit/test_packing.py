"""Binary arrays packed by hand are what PostgreSQL reads, and what it sends is read back."""

from __future__ import annotations

import struct
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives import packing

INT8 = st.integers(-(2**63), 2**63 - 1)
INT4 = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(INT8, max_size=50))
def test_bigints_round_trip(values: list[int]) -> None:
    assert packing.read_ints(packing.int8_array(values)) == values


@given(st.lists(INT4, max_size=50))
def test_integers_round_trip(values: list[int]) -> None:
    assert packing.read_ints(packing.int4_array(values)) == values


@given(st.lists(st.uuids(), max_size=20))
def test_uuids_round_trip(values: list[UUID]) -> None:
    assert packing.read_array(packing.uuid_array([value.bytes for value in values])) == [v.bytes for v in values]


@given(st.lists(st.binary(max_size=20) | st.integers(4_090, 4_100).map(bytes), max_size=8))
def test_bytes_round_trip_around_the_table_of_lengths(values: list[bytes]) -> None:
    assert packing.read_array(packing.text_array(values)) == values


@given(INT8, INT4)
def test_single_numbers_round_trip(big: int, small: int) -> None:
    assert (packing.read_int(packing.int8(big)), packing.read_int(packing.int4(small))) == (big, small)


def test_null_reads_as_empty() -> None:
    assert packing.read_array(None) == []
    assert packing.read_ints(None) == []


def test_numbers_that_do_not_fit_are_refused_and_not_cut() -> None:
    with pytest.raises(struct.error):
        packing.int8_array([2**63])
    with pytest.raises(struct.error):
        packing.int4_array([2**31])
    with pytest.raises(struct.error):
        packing.int4(2**31)


CASES: list[tuple[bytes, str, list[object]]] = [
    (packing.int8_array([1, -1, 2**63 - 1, -(2**63)]), "bigint[]", [1, -1, 2**63 - 1, -(2**63)]),
    (packing.int4_array([0, 2**31 - 1]), "int[]", [0, 2**31 - 1]),
    (packing.int8_array([]), "bigint[]", []),
    (packing.uuid_array([]), "uuid[]", []),
    (packing.uuid_array([UUID(int=5).bytes]), "uuid[]", [UUID(int=5)]),
    (packing.text_array([b"a", None, "é".encode(), b"", b"null"]), "text[]", ["a", None, "é", "", "null"]),
    (packing.json_array([b'{"a":1}', None, b"null"]), "json[]", [{"a": 1}, None, None]),
    (packing.text_array([]), "text[]", []),
]


@pytest.mark.postgres
@pytest.mark.parametrize(("packed", "kind", "meant"), CASES, ids=range(len(CASES)))
def test_the_server_reads_what_was_packed(database_dsn: str, packed: bytes, kind: str, meant: list[object]) -> None:
    with psycopg.connect(database_dsn) as connection:
        oid = connection.execute(f"select '{kind}'::regtype::oid::int".encode()).fetchone()
        assert oid is not None
        result = connection.pgconn.exec_params(
            f"select to_json($1::{kind})::text, $1::{kind}".encode(), [packed], [oid[0]], [1], 1
        )
        assert result.error_message == b""
        back = connection.execute("select %s::json", [(result.get_value(0, 0) or b"").decode()]).fetchone()
        assert back is not None
        assert back[0] == [str(each) if isinstance(each, UUID) else each for each in meant]
        if None not in meant:
            assert len(packing.read_array(result.get_value(0, 1))) == len(meant)
