-- start_v1: mark bodies as started, durably, before they start. For bodies that must not run twice (at_most_once,
-- max_attempts = 1): without the mark they are known not to have started, and may be handed back.
-- fence:  (id, run_count, p_token)
-- gives:  per id: ok (start it) | cancel (requested: do not) | lost. Twice: ok again, the first time stays
-- locks:  running rows in id order
CREATE OR REPLACE FUNCTION {schema}.start_v1(p_token bigint, p_id bigint[], p_run_count int[])
RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  UPDATE {schema}.running r SET started_at = coalesce(r.started_at, v_now)
    FROM (SELECT u.id, u.rc FROM unnest(p_id, p_run_count) AS u(id, rc) ORDER BY u.id) u
   WHERE r.id = u.id AND r.run_count = u.rc AND r.token = p_token AND r.cancel_at IS NULL;
  RETURN QUERY
    SELECT u.id, CASE WHEN r.id IS NULL THEN 'lost' WHEN r.cancel_at IS NOT NULL THEN 'cancel' ELSE 'ok' END
      FROM unnest(p_id, p_run_count) AS u(id, rc)
      LEFT JOIN {schema}.running r ON r.id = u.id AND r.run_count = u.rc AND r.token = p_token;
END $$;
