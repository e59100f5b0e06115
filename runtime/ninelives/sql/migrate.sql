-- name: migrate_settings
-- purpose: bound lock waits of this transaction ($1, milliseconds) and make unqualified names an error
-- locks: none
-- guard: local to the transaction, so that nothing is left on a pooled connection
select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', '0', true),
       set_config('search_path', '', true);

-- name: migrate_watch_client
-- purpose: let the server notice within a second that a migrating process was killed
-- locks: none
-- guard: local to the transaction; refused by servers on systems that cannot look, which is then ignored
select set_config('client_connection_check_interval', '1s', true);

-- name: migrate_database
-- purpose: the database's own name, whatever alias the dsn uses
-- locks: none
-- guard: none
select current_database()::text;

-- name: migrate_lock
-- purpose: let one process at a time migrate this schema; whatever is read later in the transaction is current
-- locks: the schema's advisory key, until the transaction ends
-- guard: taken before the version is read (PROTOCOL R2)
select pg_advisory_xact_lock($1);

-- name: migrate_blockers
-- purpose: who holds the advisory key ($1) or a lock on a table of the schema ($2), for the error message
-- locks: none
-- guard: none; a look from outside that decides nothing
select distinct a.pid, coalesce(a.application_name, ''), coalesce(a.state, ''),
       coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8
  from pg_catalog.pg_locks l
  join pg_catalog.pg_stat_activity a on a.pid = l.pid
  left join pg_catalog.pg_class c on l.locktype = 'relation' and c.oid = l.relation
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where l.granted and l.pid <> pg_backend_pid()
   and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
   and (n.nspname = $2::text
        or (l.locktype = 'advisory' and l.objsubid = 1
            and ((l.classid::bigint << 32) | l.objid::bigint) = $1::bigint))
 order by a.pid;

-- name: schema_exists
-- purpose: whether the schema ($1) is there
-- locks: none
-- guard: read under migrate_lock where something is decided
select exists (select from pg_catalog.pg_namespace where nspname = $1::text);

-- name: schema_create_text
-- purpose: the statement that creates the schema ($1), quoted by the server
-- locks: none
-- guard: run under migrate_lock, after schema_exists
select format('create schema %I', $1::text);

-- name: schema_is_versioned
-- purpose: whether the schema ($1) holds a version table
-- locks: none
-- guard: read under migrate_lock where something is decided
select exists (
    select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1::text and c.relname = 'schema_version');

-- name: schema_version_create
-- purpose: the table that says which migrations a schema has had
-- locks: a new table only
-- guard: run under migrate_lock, after schema_is_versioned
create table ninelives.schema_version (
    version    integer primary key check (version > 0),
    slug       text not null,
    applied_at timestamptz not null default clock_timestamp()
);

-- name: schema_versions
-- purpose: the migrations that the schema has had, in order
-- locks: none
-- guard: read under migrate_lock where something is decided
select version, slug from ninelives.schema_version order by version;

-- name: schema_version_add
-- purpose: note a migration in the transaction that ran it
-- locks: the new row
-- guard: the primary key; run under migrate_lock
insert into ninelives.schema_version (version, slug) values ($1, $2);
