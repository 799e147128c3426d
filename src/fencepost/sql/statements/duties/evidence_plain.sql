-- evidence_plain: the same where this role may not read the control file.
-- gives:  one row (server start, NULL, clock, the workers' last beats)
-- locks:  none
select pg_catalog.pg_postmaster_start_time(), null::int, pg_catalog.clock_timestamp(),
       array(select greatest(least(w.heartbeat_at, '9999-12-30 00:00+00'), '0001-01-03 00:00+00')
               from {schema}.worker w order by w.heartbeat_at desc limit 1000)
