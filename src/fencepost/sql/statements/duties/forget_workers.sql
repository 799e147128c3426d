-- forget_workers: rows of processes that are long gone; leases never look at them (SPEC C10)
DELETE FROM {schema}.worker w
 WHERE w.token = ANY (ARRAY(SELECT x.token FROM {schema}.worker x
                             WHERE x.heartbeat_at < clock_timestamp() - %(age_s)s::float8 * interval '1 s'
                             LIMIT %(limit)s::int FOR UPDATE SKIP LOCKED))
RETURNING w.token
