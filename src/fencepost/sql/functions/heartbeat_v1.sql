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
DECLARE v_now timestamptz := clock_timestamp();
BEGIN
  BEGIN
    WITH l AS MATERIALIZED (
      SELECT r.id, u.started, u.progress
        FROM unnest(p_token, p_id, p_run_count, p_started, p_progress) AS u(token, id, rc, started, progress)
        JOIN {schema}.running r ON r.id = u.id AND r.run_count = u.rc AND r.token = u.token
         FOR NO KEY UPDATE OF r SKIP LOCKED
    )
    UPDATE {schema}.running r
       SET heartbeat_at = v_now,
           max_gap_s = greatest(r.max_gap_s,
                                extract(epoch FROM v_now - coalesce(r.heartbeat_at, r.claimed_at))::real),
           started_at = CASE WHEN l.started THEN coalesce(r.started_at, v_now) ELSE r.started_at END,
           progress = coalesce(l.progress::jsonb, r.progress)
      FROM l WHERE r.id = l.id;
  EXCEPTION WHEN data_exception THEN              -- an unstorable progress must not cost the leases of all
    IF p_progress IS NULL THEN RAISE; END IF;
    RETURN QUERY SELECT h.id, h.answer
                   FROM {schema}.heartbeat_v1(p_token, p_id, p_run_count, p_started, NULL, p_workers) h;
    RETURN;
  END;
  RETURN QUERY
    SELECT u.id, CASE WHEN r.id IS NULL THEN 'lost'
                      WHEN r.heartbeat_at IS DISTINCT FROM v_now THEN 'busy'
                      WHEN r.cancel_at IS NOT NULL THEN 'cancel'
                      ELSE 'ok' END
      FROM unnest(p_token, p_id, p_run_count) AS u(token, id, rc)
      LEFT JOIN {schema}.running r ON r.id = u.id AND r.run_count = u.rc AND r.token = u.token;
  UPDATE {schema}.worker w SET heartbeat_at = v_now
   WHERE w.token = ANY (ARRAY(SELECT x.token FROM {schema}.worker x WHERE x.token = ANY (p_token || p_workers)
                               FOR NO KEY UPDATE SKIP LOCKED));
END $$;
