-- _note_progress: what rides along with a beat: start marks and progress, of rows that this beat has just written.
CREATE OR REPLACE FUNCTION {schema}._note_progress(
  p_token bigint[], p_id bigint[], p_run_count int[], p_started boolean[], p_progress text[], p_now timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_x record;
BEGIN
  FOR v_x IN
    SELECT u.token, u.id, u.rc, u.started, u.progress::jsonb AS progress
      FROM unnest(p_token, p_id, p_run_count, p_started, p_progress) AS u(token, id, rc, started, progress)
     WHERE u.started OR u.progress IS NOT NULL ORDER BY u.id
  LOOP
    UPDATE {schema}.running r
       SET started_at = CASE WHEN v_x.started THEN coalesce(r.started_at, p_now) ELSE r.started_at END,
           progress = coalesce(v_x.progress, r.progress)
     WHERE r.id = v_x.id AND r.run_count = v_x.rc AND r.token = v_x.token AND r.heartbeat_at = p_now
       AND (v_x.progress IS NOT NULL OR r.started_at IS NULL);
  END LOOP;
END $$;
