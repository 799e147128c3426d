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
   WHERE r.id = ANY (ARRAY(
     SELECT x.id
       FROM (SELECT u.id, u.rc FROM unnest(p_id, p_run_count) AS u(id, rc) ORDER BY u.id) u
      CROSS JOIN LATERAL (
        SELECT y.id FROM {schema}.running y
         WHERE y.id = u.id AND y.run_count = u.rc AND y.token = p_token AND y.cancel_at IS NULL
         LIMIT 1 FOR NO KEY UPDATE) x));
  RETURN QUERY
    SELECT u.id, CASE WHEN r.id IS NULL THEN 'lost' WHEN r.cancel_at IS NOT NULL THEN 'cancel' ELSE 'ok' END
      FROM unnest(p_id, p_run_count) AS u(id, rc)
      LEFT JOIN LATERAL (
        SELECT y.id, y.cancel_at FROM {schema}.running y
         WHERE y.id = u.id AND y.run_count = u.rc AND y.token = p_token LIMIT 1) r ON true;
END $$;
