-- forget_workers: rows of processes that are long gone; leases never look at them (SPEC C10).
-- gives:  a row per row removed
-- locks:  rows of worker, skipping what others hold
delete from {schema}.worker w
 where w.token = any (array(
   select x.token from {schema}.worker x
    where x.heartbeat_at < clock_timestamp() - %(age_s)s::float8 * interval '1 s'
    limit %(limit)s::int for update skip locked))
returning w.token
