-- publish_tasks_v1: workers publish what their tasks say, for any enqueuer and for the reaper.
-- gives:  how many rows were written: only what changed. An older worker does not take back a newer one's version
-- locks:  task rows in name order
CREATE OR REPLACE FUNCTION {schema}.publish_tasks_v1(p_tasks jsonb) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_n int;
BEGIN
  INSERT INTO {schema}.task AS t (name, version, queue, priority, max_attempts, max_crashes, on_lost, at_most_once,
                                  lease_only, ttl_s, dedup_s, keep_ok_s, keep_bad_s)
  SELECT x.name, x.version, x.queue, x.priority, x.max_attempts, x.max_crashes, x.on_lost, x.at_most_once,
         coalesce(x.lease_only, false), x.ttl_s, x.dedup_s, x.keep_ok_s, x.keep_bad_s
    FROM jsonb_to_recordset(p_tasks) AS x(
           name text, version int, queue text, priority int, max_attempts int, max_crashes int, on_lost text,
           at_most_once boolean, lease_only boolean, ttl_s float8, dedup_s float8, keep_ok_s float8, keep_bad_s float8)
   WHERE NOT EXISTS (
     SELECT FROM {schema}.task t
      WHERE t.name = x.name
        AND (t.version > x.version
             OR ROW(t.version, t.queue, t.priority, t.max_attempts, t.max_crashes, t.on_lost, t.at_most_once,
                    t.lease_only, t.ttl_s, t.dedup_s, t.keep_ok_s, t.keep_bad_s)
                IS NOT DISTINCT FROM
                ROW(x.version, x.queue, x.priority, x.max_attempts, x.max_crashes, x.on_lost, x.at_most_once,
                    coalesce(x.lease_only, false), x.ttl_s, x.dedup_s, x.keep_ok_s, x.keep_bad_s)))
   ORDER BY x.name
  ON CONFLICT (name) DO UPDATE
    SET version = excluded.version, queue = excluded.queue, priority = excluded.priority,
        max_attempts = excluded.max_attempts, max_crashes = excluded.max_crashes, on_lost = excluded.on_lost,
        at_most_once = excluded.at_most_once, lease_only = excluded.lease_only, ttl_s = excluded.ttl_s,
        dedup_s = excluded.dedup_s, keep_ok_s = excluded.keep_ok_s, keep_bad_s = excluded.keep_bad_s,
        updated_at = clock_timestamp()
  WHERE t.version <= excluded.version;
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
