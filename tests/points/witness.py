"""An independent look at the tables: triggers write down every claim, end and key; queries of the tests' own judge.

Nothing here calls the library but the functions of the schema that drain it. The checks are P1 to P6:

    P1  what was acknowledged is there, and everything ends once the faults stop
    P2  one outcome for each life of a job, by the run that held it
    P3  each run is claimed once, attempts stay within their bound
    P4  never two active jobs with one key, at any commit
    P5  one row for one job_id
    P6  a run that is over changes nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from points.injector import REFUSED_COMMIT
from servers import Database
from sql import guard

_SET_BACK = """
create table public.history (
  n bigint generated always as identity primary key, what text, id bigint, run_count int, token bigint, state text);
create table public.business (name text primary key);
create function public.write_down() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'running' then
    if tg_op = 'INSERT' then
      insert into public.history (what, id, run_count, token) values ('claimed', new.id, new.run_count, new.token);
    else
      insert into public.history (what, id, run_count, token) values ('left', old.id, old.run_count, old.token);
    end if;
  elsif tg_op = 'DELETE' then
    insert into public.history (what, id, state) values ('reopened', old.id, old.state);
  else
    insert into public.history (what, id, run_count, token, state)
      values ('ended', new.id, new.run_count, new.token, new.state);
  end if;
  return null;
end $$;
create trigger write_down after insert or delete on fencepost.running for each row execute function public.write_down();
create trigger write_down after insert or delete on fencepost.outcome for each row execute function public.write_down();
create function public.one_holder() returns trigger language plpgsql as $$
begin
  insert into public.history (what, id)
    select 'two active jobs with one key', new.id
      from fencepost.job j join fencepost.job k using (task, unique_key)
     where j.id = new.id and k.id <> j.id and not exists (select from fencepost.outcome o where o.id in (j.id, k.id));
  return null;
end $$;
create function public.set_back() returns void language plpgsql set session_replication_role = replica as $$
declare
  v_table text;
begin
  for v_table in select format('%I.%I', schemaname, tablename) from pg_tables
                  where schemaname = 'fencepost' and tablename <> 'migration'
                     or tablename in ('guard_seen', 'history', 'business') loop
    execute 'delete from ' || v_table;
  end loop;
end $$;
create function public.drain() returns void language plpgsql as $$
begin
  perform set_config('fencepost.guard', 'off', true);  -- several edges in one transaction
  update fencepost.queue set paused = false, paused_at = null;
  insert into fencepost.worker (token, tasks, queues)
    select 99, jsonb_object_agg(task, version), '{}' from (select task, max(version) as version from fencepost.job group by 1) t
    having count(*) > 0;
  for round in 1 .. 20 loop
    update fencepost.running set claimed_at = clock_timestamp() - interval '1 h', heartbeat_at = null;
    perform fencepost.rescue_v1(1000);
    perform fencepost.wake_known_v1(1000);
    update fencepost.delayed set run_at = clock_timestamp() - interval '1 s';
    perform fencepost.promote_v1(1000);
    perform fencepost.settle_v1(99, array_agg(c.id), array_agg(c.run_count), array_agg('succeed'::text))
       from fencepost.claim_v1(99, (select coalesce(array_agg(distinct queue), '{}') from fencepost.job),
                               (select coalesce(array_agg(1000), '{}') from (select distinct queue from fencepost.job) q)) c
      where c.id is not null having count(*) > 0;
    exit when not exists (select from fencepost.jobs where state in ('queued', 'running'));
  end loop;
end $$;
"""
_PLACES = ("ready", "delayed", "parked", "running")

_WRONG = {
    "P1, it never ends": "select job_id, state from fencepost.jobs where state in ('queued', 'running')",
    "P2, an outcome by a run that did not hold it": """
        select id, run_count, state from public.history e where what = 'ended' and token is not null and not exists
          (select from public.history c where c.what = 'claimed' and (c.id, c.run_count, c.token) = (e.id, e.run_count, e.token))
        """,
    "P2, ended twice in one life": """
        select id, n from public.history e where what = 'ended' and exists
          (select from public.history d where d.what = 'ended' and d.id = e.id and d.n > e.n and not exists
            (select from public.history r where r.what = 'reopened' and r.id = e.id and r.n between e.n and d.n))
        """,
    "P2, a run left its lease twice":
        "select id, run_count from public.history where what = 'left' group by 1, 2 having count(*) > 1",
    "P3, a run was claimed twice":
        "select id, run_count from public.history where what = 'claimed' group by 1, 2 having count(*) > 1",
    "P3, runs are not claims": """
        select j.job_id, j.run_count from fencepost.jobs j where j.run_count
          <> (select count(*) from public.history h where h.what = 'claimed' and h.id = j.id)
        """,
    "P3, attempts beyond their bound": """
        select j.job_id, j.attempts from fencepost.jobs j join fencepost.job using (id)
          left join fencepost.task t on t.name = j.task
         where j.attempts > coalesce(job.max_attempts, t.max_attempts, 5)
        """,
    "P4": "select what, id from public.history where what like 'two%%'",
    "P5, two rows": "select job_id, count(*) from fencepost.job group by 1 having count(*) > 1",
    "fsck finds": "select * from fencepost.fsck",
    "put aside": "select id, reason from fencepost.quarantine",
}  # fmt: skip

_ALL = """
select (select md5(string_agg(t::text, ',' order by id)) from fencepost.jobs t),
       (select md5(string_agg(t::text, ',' order by id)) from fencepost.carry t),
       (select md5(string_agg((id, run_count, token, how, spent, error_code)::text, ',' order by id, run_count))
          from fencepost.attempt t)
"""
_STALE = """
select h.id, h.run_count, h.token,
       (select string_agg(answer, ' ') from fencepost.heartbeat_v1(array[h.token], array[h.id], array[h.run_count])),
       (select string_agg(answer, ' ') from fencepost.start_v1(h.token, array[h.id], array[h.run_count])),
       fencepost.checkpoint_v1(h.token, h.id, h.run_count, '{"late": true}')::text,
       (select string_agg(answer, ' ') from fencepost.settle_v1(h.token, array[h.id], array[h.run_count], '{fail}'))
  from public.history h where h.what = 'claimed'
"""


class Witness:
    """One connection of the tests' own to one database."""

    def __init__(self, database: Database) -> None:
        self.conn = database.connect()
        guard.install(self.conn)
        self.conn.execute(_SET_BACK.encode())
        self.conn.execute(REFUSED_COMMIT.encode())
        for place in _PLACES:
            self.conn.execute(
                f"create constraint trigger one_holder after insert on fencepost.{place} deferrable initially deferred "
                "for each row execute function public.one_holder()".encode()
            )

    def close(self) -> None:
        self.conn.close()

    def ask(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self.conn.execute(query.encode(), params or None)
        return [] if cursor.description is None else cursor.fetchall()

    def one(self, query: str, *params: Any) -> Any:
        """The first value; None if there is no row."""
        rows = self.ask(query, *params)
        return rows[0][0] if rows else None

    def states(self) -> dict[str, str]:
        return dict(self.ask("select job_id, state from fencepost.jobs"))

    def set_back(self) -> None:
        """An empty database again; what was installed stays."""
        self.ask("select public.set_back()")

    def is_quiet(self) -> bool:
        """Whether no statement of the library's is under way, not even one whose connection was cut."""
        return not self.ask(
            "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
            "and backend_type = 'client backend' and state is distinct from 'idle'"
        )

    def judge(self) -> Iterator[str]:
        """Drain, then look. What was acknowledged is judged by whoever heard of it."""
        self.ask("select public.drain()")
        for meaning, query in _WRONG.items():
            yield from (f"{meaning}: {row}" for row in self.ask(query))
        before = self.ask(_ALL)
        for id_, run_count, token, *answers in self.ask(_STALE):
            if not set(answers) <= {"lost", "already", "false"}:
                yield f"P6, a run that is over was answered: {(id_, run_count, token)}: {answers}"
        if self.ask(_ALL) != before:
            yield "P6, a run that is over changed something"
