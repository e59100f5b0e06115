"""What a schema consists of, as comparable text: two schemas are the same when their lines are."""

from __future__ import annotations

import psycopg
from psycopg import sql

_TABLES = """
select format('table %s (%s)', c.relname, array_to_string(c.reloptions, ', '))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1::text and c.relkind = 'r'
"""
_COLUMNS = """
select format('column %s.%s %s %s %s default %s identity %s', c.relname, a.attnum, a.attname,
              format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
              pg_get_expr(d.adbin, d.adrelid), a.attidentity)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
 where n.nspname = $1::text and c.relkind = 'r'
"""
_CONSTRAINTS = """
select format('constraint %s %s', o.conname, pg_get_constraintdef(o.oid))
  from pg_constraint o join pg_namespace n on n.oid = o.connamespace where n.nspname = $1::text
"""
_INDEXES = """
select format('index %s', replace(indexdef, format('%I.', $1::text), 'S.'))
  from pg_indexes where schemaname = $1::text
"""
_FUNCTIONS = """
select format('function %s', replace(pg_get_functiondef(p.oid), format('%I.', $1::text), 'S.'))
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = $1::text
"""


def describe_schema(dsn: str, schema: str) -> list[str]:
    """Return a sorted line for each table, column, constraint, index and function, the schema's own name as `S`."""
    lines: list[str] = []
    with psycopg.connect(dsn) as connection:
        for query in (_TABLES, _COLUMNS, _CONSTRAINTS, _INDEXES, _FUNCTIONS):
            lines.extend(row[0] for row in psycopg.RawCursor(connection).execute(query.encode(), [schema]))
    return sorted(lines)


def versions(dsn: str, schema: str) -> list[int]:
    """Return the numbers in the schema's version table, in order."""
    query = sql.SQL("select version from {}.schema_version order by version")
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(query.format(sql.Identifier(schema)))]


def schemas(dsn: str) -> set[str]:
    """Return the names of all schemas that PostgreSQL did not make itself."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"
        )
        return {row[0] for row in rows} - {"public"}
