-- vacuum_candidates: narrow tables with many dead rows, and whether this role may vacuum them
SELECT c.relname::text, pg_catalog.pg_stat_get_dead_tuples(c.oid),
       CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 170000
            THEN pg_catalog.has_table_privilege(c.oid, 'MAINTAIN') ELSE pg_catalog.pg_has_role(c.relowner, 'USAGE') END
  FROM pg_catalog.pg_class c
 WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r'
   AND c.relname IN ('ready', 'delayed', 'parked', 'running', 'gate', 'worker', 'leader', 'outcome')
   AND pg_catalog.pg_stat_get_dead_tuples(c.oid) >= %(after)s::bigint
 ORDER BY c.relname
