-- resolve_v1: a reconciler or a person says what became of a job in doubt, audited (SPEC L7, E6).
-- edge:   in_doubt -> succeeded | failed | cancelled | queued (it did not happen: run it again)
-- gives:  resolved | not_in_doubt | unknown
-- locks:  the outcome row, then the key
CREATE OR REPLACE FUNCTION {schema}.resolve_v1(
  p_job_id text, p_verdict text, p_actor text, p_reason text DEFAULT NULL, p_result jsonb DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  j record;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF p_verdict IS NULL OR p_verdict NOT IN ('succeeded', 'failed', 'cancelled', 'queued') THEN
    RAISE EXCEPTION 'fencepost.resolve_v1: p_verdict must be succeeded, failed, cancelled or queued, not %', p_verdict
      USING ERRCODE = '22023';
  END IF;
  SELECT job.id, job.task, job.unique_key, o.run_count, o.state, coalesce(t.keep_bad_s, 90 * 86400) AS keep_bad_s,
         greatest(coalesce(t.keep_ok_s, 14 * 86400), coalesce(job.dedup_s, t.dedup_s, 86400)) AS keep_ok_s
    INTO j
    FROM {schema}.job
    LEFT JOIN {schema}.outcome o ON o.id = job.id
    LEFT JOIN {schema}.task t ON t.name = job.task
   WHERE job.job_id = p_job_id;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF j.state IS DISTINCT FROM 'in_doubt' THEN RETURN 'not_in_doubt'; END IF;
  IF p_verdict = 'queued' THEN
    IF NOT {schema}._revive(j.id, j.run_count, j.task, j.unique_key) THEN RETURN 'not_in_doubt'; END IF;
    UPDATE {schema}.job SET run_at = v_now, start_by = NULL, finish_by = NULL WHERE job.id = j.id;
    PERFORM {schema}._queue_up(j.id, j.run_count, v_now);
    NOTIFY {schema};
  ELSE
    UPDATE {schema}.outcome o
       SET state = p_verdict, result = coalesce(p_result, o.result), finished_at = v_now,
           purge_at = v_now + {schema}._seconds(CASE p_verdict WHEN 'failed' THEN j.keep_bad_s ELSE j.keep_ok_s END)
     WHERE o.id = j.id AND o.run_count = j.run_count AND o.state = 'in_doubt';
    IF NOT FOUND THEN RETURN 'not_in_doubt'; END IF;
    DELETE FROM {schema}.held h WHERE h.id = j.id;
  END IF;
  INSERT INTO {schema}.audit (id, actor, action, reason, was, became)
  VALUES (j.id, p_actor, 'resolve', p_reason, 'in_doubt', p_verdict);
  RETURN 'resolved';
END $$;
