-- _enqueue_keyed: many new jobs with unique keys at once: all keys in key order, then all jobs.
-- gives:  true: all were made. false: somebody else took a key or a job_id meanwhile, or they meet among themselves, or
--         one has no key; nothing was made, nothing is held
-- locks:  keys in ascending order; waits for an open transaction that has inserted the same key
--
-- A conflict gives everything back (the subtransaction) before anybody looks again: a key that was busy at the first
-- look and is free at the second would otherwise be taken after larger ones, and two callers would deadlock.
CREATE OR REPLACE FUNCTION {schema}._enqueue_keyed(
  p_take boolean[], p_id bigint[], p_job_id text[], p_task text[], p_payload text[], p_queue text[], p_priority int[],
  p_run_at timestamptz[], p_key text[], p_ckey text[], p_opts jsonb[], p_now timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_keys int;
BEGIN
  INSERT INTO {schema}.held (scope, key, id)
  SELECT u.task, u.key, u.id
    FROM unnest(p_take, p_task, p_key, p_id) AS u(take, task, key, id)
   WHERE u.take AND u.key IS NOT NULL
   ORDER BY u.task COLLATE "C", u.key COLLATE "C"
  ON CONFLICT ON CONSTRAINT held_pkey DO NOTHING;
  GET DIAGNOSTICS v_keys = ROW_COUNT;
  -- breakpoint: enqueue.keys_taken
  IF v_keys < cardinality(array_positions(p_take, true))
     OR v_keys IS DISTINCT FROM cardinality({schema}._enqueue_new(
          p_take, p_id, p_job_id, p_task, p_payload, p_queue, p_priority, p_run_at, p_key, p_ckey, p_opts, p_now))
  THEN
    RAISE EXCEPTION 'fencepost: a key was taken meanwhile' USING ERRCODE = 'FP001';
  END IF;
  RETURN true;
EXCEPTION WHEN SQLSTATE 'FP001' THEN
  RETURN false;
END $$;
