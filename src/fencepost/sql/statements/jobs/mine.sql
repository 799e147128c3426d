-- mine: the leases that the database believes a process to hold; asked after a reconnect.
-- gives:  one row: whether this is a standby, which may not know the newest; ids; run counts
-- locks:  none. The table is as narrow as what runs, so it needs no index for this
SELECT pg_is_in_recovery(), array_agg(id ORDER BY id), array_agg(run_count ORDER BY id)
  FROM {schema}.running WHERE token = %(token)s::bigint
