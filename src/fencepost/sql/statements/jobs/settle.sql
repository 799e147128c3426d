-- settle: the one road out of running (functions/settle_v1.sql).
-- edge:   running -> any other state
-- fence:  (id, run_count, token)
-- gives:  per id: accepted, already, lost, busy; and what the job became
-- locks:  the lease rows in id order, then held, then gates in key order
select id, answer, state
  from {schema}.settle_v1(%(token)s::bigint, %(id)s::bigint[], %(run_count)s::int[], %(act)s::text[],
         %(delay_s)s::float8[], %(code)s::text[], %(error)s::text[], %(result)s::text[], %(stats)s::text[],
         %(defer)s::boolean)
