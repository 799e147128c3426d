"""The guard of L2 for tests: no commit may leave a job in two places or in none, or take it along no edge of the table.

Deferred triggers on every place note which jobs a transaction touched; at its commit each must lie in exactly one place
(or be gone as a whole) and have come from its last state by one edge of `fencepost.domain.states`. A transaction that
takes a job along several edges at once names them by ``set local fencepost.guard = 'off'``.
"""

from __future__ import annotations

from typing import Any

import psycopg

from fencepost.domain.states import EDGES
from waiting import eventually

PLACES = ("ready", "delayed", "parked", "running", "outcome")


def install(conn: psycopg.Connection[Any]) -> None:
    """Put the guard on a migrated database without jobs."""
    edges = sorted({(edge.before or "", edge.after or "") for edge in EDGES})
    conn.execute("create table public.guard_edge (before text, after text, primary key (before, after))")
    conn.execute("create table public.guard_seen (id bigint primary key, state text not null)")
    with conn.cursor() as cursor:
        cursor.executemany("insert into public.guard_edge values (%s, %s)", edges)
    conn.execute(_FUNCTION.encode())
    for place in PLACES:
        conn.execute(
            f"create constraint trigger guard after insert or delete on fencepost.{place} deferrable initially deferred "
            "for each row execute function public.guard()".encode()
        )
    conn.execute(
        b"create constraint trigger guard_verdict after update of state on fencepost.outcome "
        b"deferrable initially deferred for each row execute function public.guard()"
    )


def empty(conn: psycopg.Connection[Any]) -> None:
    """Forget every job and setting; what `install` made stays.

    A check that was stopped half-way leaves server processes behind that finish their statements, and wait in them for
    each other's rows: they are ended first.
    """
    others = (
        "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and backend_type = 'client backend'"
    )
    conn.execute(others.replace("select from", "select pg_terminate_backend(pid) from").encode())
    eventually(lambda: not conn.execute(others.encode()).fetchall())
    tables = conn.execute(
        "select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables "
        "where schemaname = 'fencepost' and tablename <> 'migration' or tablename = 'guard_seen'"
    ).fetchone()
    assert tables is not None
    conn.execute(f"truncate {tables[0]} restart identity cascade".encode())
    for (name,) in conn.execute(
        "select tablename from pg_tables where schemaname = 'public' and tablename not like 'guard%'"
    ).fetchall():
        conn.execute(f"drop table public.{name}".encode())


_FUNCTION = """
create function public.guard() returns trigger language plpgsql as $$
declare
  v_id bigint := case tg_op when 'DELETE' then old.id else new.id end;
  v_places text[];
  v_job boolean := exists (select from fencepost.job j where j.id = v_id);
  v_was text;
  v_is text;
begin
  v_places := array(
    select 'ready' from fencepost.ready where id = v_id union all select 'delayed' from fencepost.delayed where id = v_id
    union all select 'parked' from fencepost.parked where id = v_id
    union all select 'running' from fencepost.running where id = v_id
    union all select o.state from fencepost.outcome o where id = v_id);
  if cardinality(v_places) <> v_job::int then
    raise exception 'guard: job % (row: %) lies in %', v_id, v_job, v_places;
  end if;
  v_is := case when v_places[1] in ('ready', 'delayed', 'parked') then 'queued' else coalesce(v_places[1], '') end;
  v_was := coalesce((select state from public.guard_seen where id = v_id), '');
  if v_was <> v_is and current_setting('fencepost.guard', true) is distinct from 'off'
     and not exists (select from public.guard_edge where before = v_was and after = v_is) then
    raise exception 'guard: job % may not go from % to %', v_id, v_was, v_is;
  end if;
  delete from public.guard_seen where id = v_id;
  if v_is <> '' then
    insert into public.guard_seen values (v_id, v_is);
  end if;
  return null;
end $$
"""
