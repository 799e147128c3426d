-- rescue_process_v1: a supervisor saw this process die, and knows what it ran (SPEC W11).
-- edge:   running -> queued | failed | in_doubt | cancelled
-- gives:  what became of each
-- locks:  running rows in id order with SKIP LOCKED
--
-- p_started: crash suspects (a crash is counted). p_overdue: killed at their limit (the timeout path). p_interrupted:
-- started, but the supervisor killed the process for another reason (unspent, unless the body must not run twice).
-- Whatever else the process had claimed never started and goes back unspent.
CREATE OR REPLACE FUNCTION {schema}.rescue_process_v1(
  p_token bigint, p_started bigint[], p_overdue bigint[], p_interrupted bigint[], p_limit int DEFAULT 10000
) RETURNS TABLE (id bigint, answer text, state text) LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint[];
  v_run_count int[];
  v_token bigint[];
  v_act text[];
  v_error text[];
BEGIN
  -- the supervisor's word is as good as a start mark, and is needed by the rules for bodies that must not run twice
  UPDATE {schema}.running r SET started_at = clock_timestamp()
   WHERE r.started_at IS NULL
     AND r.id = ANY (ARRAY(SELECT y.id FROM {schema}.running y
                            WHERE y.id = ANY (p_started || p_overdue || p_interrupted) AND y.token = p_token
                            ORDER BY y.id FOR NO KEY UPDATE SKIP LOCKED));
  SELECT array_agg(s.id ORDER BY s.id), array_agg(s.run_count ORDER BY s.id), array_agg(s.token ORDER BY s.id),
         array_agg(s.act ORDER BY s.id),
         array_agg(CASE WHEN s.act = 'timeout' THEN 'killed at its maximum duration'
                        WHEN s.act = 'lost' THEN 'the worker process died'
                        WHEN s.started_at IS NOT NULL THEN 'its process was ended' END ORDER BY s.id)
    INTO v_id, v_run_count, v_token, v_act, v_error
    FROM (SELECT r.id, r.run_count, r.token, r.started_at,
                 CASE WHEN r.id = ANY (p_overdue) THEN 'timeout'
                      WHEN r.id = ANY (p_interrupted) THEN 'release'
                      WHEN r.id = ANY (p_started) OR r.started_at IS NOT NULL THEN 'lost'
                      ELSE 'release' END AS act
            FROM {schema}.running r WHERE r.token = p_token ORDER BY r.id LIMIT p_limit FOR UPDATE SKIP LOCKED) s;
  IF v_id IS NULL THEN RETURN; END IF;
  RETURN QUERY SELECT x.id, x.answer, x.state FROM {schema}._rescue(v_id, v_run_count, v_token, v_act, v_error) x;
END $$;
