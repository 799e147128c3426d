-- vacuum_candidates: narrow tables with many dead rows, and whether this role may vacuum them.
-- gives:  a row per table (name, dead rows, allowed)
-- locks:  none
select c.relname::text, pg_stat_get_dead_tuples(c.oid),
       pg_has_role(c.relowner, 'usage')
         or (current_setting('server_version_num')::int >= 170000
             and has_table_privilege(c.oid, case when current_setting('server_version_num')::int >= 170000
                                                 then 'maintain' else 'select' end))
  from pg_class c
 where c.relnamespace = to_regnamespace('{schema}') and c.relkind = 'r'
   and c.relname in ('delayed', 'gate', 'leader', 'outcome', 'parked', 'ready', 'running', 'worker')
   and pg_stat_get_dead_tuples(c.oid) >= %(after)s::bigint
 order by c.relname
