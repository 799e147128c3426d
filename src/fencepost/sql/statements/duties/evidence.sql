-- evidence: whether the database's service and clock were continuous (SPEC C11)
SELECT pg_catalog.pg_postmaster_start_time(), (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()),
       pg_catalog.clock_timestamp(),
       ARRAY(SELECT w.heartbeat_at FROM {schema}.worker w ORDER BY w.heartbeat_at DESC LIMIT 1000)
