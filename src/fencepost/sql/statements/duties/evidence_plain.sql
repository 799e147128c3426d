-- evidence_plain: the same where this role may not read the control file
SELECT pg_catalog.pg_postmaster_start_time(), NULL::int, pg_catalog.clock_timestamp(),
       ARRAY(SELECT w.heartbeat_at FROM {schema}.worker w ORDER BY w.heartbeat_at DESC LIMIT 1000)
