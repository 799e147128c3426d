-- heartbeat_v1: keep leases; one statement may speak for several processes (tokens run parallel to the ids).
-- fence:  (id, run_count, token)
-- gives:  per id: ok | cancel | busy (somebody has the row locked: neither lost nor beaten, ask again) | lost
-- locks:  running rows with SKIP LOCKED: a beat never waits for anybody
--
-- Carries progress and start marks. p_workers: processes that live, with or without jobs.
CREATE OR REPLACE FUNCTION {schema}.heartbeat_v1(
  p_token bigint[], p_id bigint[], p_run_count int[], p_started boolean[] DEFAULT NULL, p_progress text[] DEFAULT NULL,
  p_workers bigint[] DEFAULT NULL
) RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_id bigint[];
BEGIN
  v_id := ARRAY(
    SELECT x.id
      FROM unnest(p_token, p_id, p_run_count) AS u(token, id, rc)
     CROSS JOIN LATERAL (
       SELECT y.id FROM {schema}.running y WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) x);
  UPDATE {schema}.running r
     SET heartbeat_at = v_now,
         max_gap_s = greatest(r.max_gap_s, extract(epoch FROM v_now - greatest(least(
           coalesce(r.heartbeat_at, r.claimed_at), v_now), v_now - interval '10 years'))::real)
   WHERE r.id = ANY (v_id);
  -- breakpoint: beat.written

  IF p_started IS NOT NULL OR p_progress IS NOT NULL THEN
    BEGIN
      PERFORM {schema}._note_progress(p_token, p_id, p_run_count, p_started, p_progress, v_now);
    EXCEPTION WHEN data_exception THEN            -- an unstorable progress must not cost the leases of all
      PERFORM {schema}._note_progress(p_token, p_id, p_run_count, p_started, NULL, v_now);
    END;
  END IF;

  -- read back after the write: the answer is derived from the row
  RETURN QUERY
    SELECT u.id, CASE WHEN r.id IS NULL THEN 'lost'
                      WHEN r.heartbeat_at IS DISTINCT FROM v_now THEN 'busy'
                      WHEN r.cancel_at IS NOT NULL THEN 'cancel'
                      ELSE 'ok' END
      FROM unnest(p_token, p_id, p_run_count) AS u(token, id, rc)
      LEFT JOIN LATERAL (
        SELECT y.id, y.heartbeat_at, y.cancel_at FROM {schema}.running y
         WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token LIMIT 1) r ON true;
  UPDATE {schema}.worker w SET heartbeat_at = v_now
   WHERE w.token = ANY (ARRAY(SELECT x.token FROM {schema}.worker x WHERE x.token = ANY (p_token || p_workers)
                               FOR NO KEY UPDATE SKIP LOCKED));
END $$;
