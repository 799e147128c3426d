-- evidence: whether the database's service and clock were continuous (SPEC C11).
-- gives:  one row (server start, timeline, clock, the workers' last beats)
-- locks:  none. The control file is for roles that may read it (pg_monitor); the others use evidence_plain
select pg_catalog.pg_postmaster_start_time(), (select timeline_id from pg_catalog.pg_control_checkpoint()),
       pg_catalog.clock_timestamp(),
       array(select greatest(least(w.heartbeat_at, '9999-12-30 00:00+00'), '0001-01-03 00:00+00')
               from {schema}.worker w order by w.heartbeat_at desc limit 1000)
