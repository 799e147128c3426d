-- horizon: who holds the oldest snapshot, so that VACUUM must keep what later transactions have deleted.
-- gives:  at most one row: who it is, and for how many seconds; of others' sessions only what this role may see
-- locks:  none
select h.who, h.seconds
  from (select format('the %s %s (%s, %s)', case when a.backend_type = 'walsender' then 'standby behind session' else 'session' end,
                      a.pid, coalesce(nullif(a.application_name, ''), 'no application name'), coalesce(a.state, 'no state')) as who,
               extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.backend_start))::float8 as seconds,
               greatest(age(a.backend_xmin), age(a.backend_xid)) as age
          from pg_stat_activity a
         where a.pid <> pg_backend_pid() and coalesce(a.backend_xmin, a.backend_xid) is not null
           and (a.datname = current_database() or a.backend_type = 'walsender')
        union all
        select format('the replication slot %s', s.slot_name), null, age(s.xmin) from pg_replication_slots s
         where s.xmin is not null
        union all
        select format('the prepared transaction %s', p.gid), extract(epoch from clock_timestamp() - p.prepared)::float8,
               age(p.transaction)
          from pg_prepared_xacts p where p.database = current_database()) h
 order by h.age desc limit 1
