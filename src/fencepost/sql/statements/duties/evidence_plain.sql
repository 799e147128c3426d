-- evidence_plain: the same where this role may not read the control file.
-- gives:  one row (server start, NULL, clock, the workers' last beats)
-- locks:  none
select pg_catalog.pg_postmaster_start_time(), null::int, pg_catalog.clock_timestamp(),
       array(select w.heartbeat_at from {schema}.worker w order by w.heartbeat_at desc limit 1000)
