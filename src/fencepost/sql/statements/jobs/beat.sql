-- beat: keep leases of any number of processes (functions/heartbeat_v1.sql).
-- fence:  (id, run_count, token)
-- gives:  per id: ok, cancel, busy, lost
-- locks:  waits for nobody
select id, answer
  from {schema}.heartbeat_v1(%(token)s::bigint[], %(id)s::bigint[], %(run_count)s::int[], %(started)s::boolean[],
         %(progress)s::text[], %(workers)s::bigint[])
