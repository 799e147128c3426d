-- cancel_v1: cancel a job, audited (SPEC W8).
-- edge:   queued -> cancelled; running: a request, which every road out of running heeds
-- gives:  cancelled | requested | finished | busy (its end is being committed) | unknown
-- locks:  the row in its place; a running row with SKIP LOCKED: never behind a user's transaction
CREATE OR REPLACE FUNCTION {schema}.cancel_v1(p_job_id text, p_actor text DEFAULT 'unknown', p_reason text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint;
  v_answer text := 'busy';
BEGIN
  SELECT j.id INTO v_id FROM {schema}.job j WHERE j.job_id = p_job_id;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  FOR try IN 1 .. 5 LOOP                -- it may move between two looks
    IF {schema}._end_queued(ARRAY[v_id], 'cancelled', NULL, clock_timestamp()) > 0 THEN
      v_answer := 'cancelled';
      EXIT;
    END IF;
    -- breakpoint: cancel.not_queued
    UPDATE {schema}.running r SET cancel_at = coalesce(r.cancel_at, clock_timestamp())
     WHERE r.id = (SELECT y.id FROM {schema}.running y WHERE y.id = v_id FOR NO KEY UPDATE SKIP LOCKED);
    IF FOUND THEN
      v_answer := 'requested';
      EXIT;
    END IF;
    IF EXISTS (SELECT FROM {schema}.outcome o WHERE o.id = v_id) THEN
      v_answer := 'finished';
      EXIT;
    END IF;
  END LOOP;
  INSERT INTO {schema}.audit (id, actor, action, reason, became) VALUES (v_id, p_actor, 'cancel', p_reason, v_answer);
  RETURN v_answer;
END $$;
