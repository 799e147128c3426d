-- resubmit_v1: an operator runs an ended job again, audited and counted (SPEC R5): same arguments, checkpoint, key and
-- idempotency key. Its deadlines are dropped: they have passed or would pass.
-- edge:   failed, cancelled, skipped, succeeded -> queued
-- gives:  resubmitted | skipped (+ the holder of its unique key; nothing changed) | active | in_doubt (use resolve)
--         | unknown
-- locks:  the outcome row, then the key
CREATE OR REPLACE FUNCTION {schema}.resubmit_v1(
  p_job_id text, p_actor text, p_reason text DEFAULT NULL, OUT answer text, OUT holder text
) LANGUAGE plpgsql AS $$
DECLARE
  j record;
  v_now timestamptz := clock_timestamp();
BEGIN
  FOR try IN 1 .. 5 LOOP
    SELECT job.id, job.task, job.unique_key, o.state, o.run_count
      INTO j FROM {schema}.job LEFT JOIN {schema}.outcome o ON o.id = job.id WHERE job.job_id = p_job_id;
    IF NOT FOUND THEN answer := 'unknown'; RETURN; END IF;
    IF j.state IS NULL OR j.state = 'in_doubt' THEN answer := coalesce(j.state, 'active'); RETURN; END IF;
    SELECT x.job_id INTO holder
      FROM {schema}.held h JOIN {schema}.job x ON x.id = h.id WHERE h.scope = j.task AND h.key = j.unique_key;
    IF FOUND THEN answer := 'skipped'; RETURN; END IF;
    -- breakpoint: resubmit.looked
    CONTINUE WHEN NOT {schema}._revive(j.id, j.run_count, j.task, j.unique_key);
    UPDATE {schema}.job SET manual = job.manual + 1, run_at = v_now, start_by = NULL, finish_by = NULL
     WHERE job.id = j.id;
    PERFORM {schema}._queue_up(j.id, j.run_count, v_now);
    INSERT INTO {schema}.audit (id, actor, action, reason, was, became)
    VALUES (j.id, p_actor, 'resubmit', p_reason, j.state, 'queued');
    NOTIFY {schema};
    answer := 'resubmitted';
    RETURN;
  END LOOP;
  RAISE EXCEPTION 'fencepost: job % keeps changing', p_job_id USING ERRCODE = '40001';
END $$;
