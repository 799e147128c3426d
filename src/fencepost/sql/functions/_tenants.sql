-- _tenants: the next tenants of a fair queue after the cursor, wrapping once; a plain queue has the one tenant ''.
-- p_first, p_last: the open epochs. A loose scan: its cost follows p_n, not the backlog.
CREATE OR REPLACE FUNCTION {schema}._tenants(p_queue text, p_fair boolean, p_after text, p_n int, p_first bigint, p_last bigint)
RETURNS TABLE (fair_key text, quota int) LANGUAGE plpgsql AS $$
DECLARE
  v_found text[] := '{}';
  v_key text := p_after;
  v_wrapped boolean := false;
BEGIN
  IF NOT p_fair THEN
    RETURN QUERY SELECT '', p_n;
    RETURN;
  END IF;
  WHILE cardinality(v_found) < p_n LOOP
    v_key := (SELECT min(x.fair_key)
                FROM generate_series(p_first, p_last) AS e(epoch)
               CROSS JOIN LATERAL (
                 SELECT r.fair_key FROM {schema}.ready r
                  WHERE r.epoch = e.epoch AND r.queue = p_queue AND r.fair_key > v_key
                  ORDER BY r.fair_key LIMIT 1) x);
    IF v_key IS NULL AND NOT v_wrapped THEN
      v_wrapped := true;
      v_key := (SELECT min(x.fair_key)
                  FROM generate_series(p_first, p_last) AS e(epoch)
                 CROSS JOIN LATERAL (
                   SELECT r.fair_key FROM {schema}.ready r
                    WHERE r.epoch = e.epoch AND r.queue = p_queue
                    ORDER BY r.fair_key LIMIT 1) x);
    END IF;
    EXIT WHEN v_key IS NULL OR v_key = ANY (v_found);
    v_found := v_found || v_key;
  END LOOP;
  RETURN QUERY SELECT u.key, p_n / cardinality(v_found) FROM unnest(v_found) AS u(key);
END $$;
