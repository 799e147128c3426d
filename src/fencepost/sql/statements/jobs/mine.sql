-- mine: the leases that the database believes a process to hold; asked after a reconnect.
-- gives:  one row per lease: the fence
-- locks:  none. The table is as narrow as what runs, so it needs no index for this
SELECT id, run_count, token FROM {schema}.running WHERE token = %(token)s::bigint ORDER BY id
