-- _tenants: the next tenants of a fair queue after the cursor, wrapping once; a plain queue has the one tenant ''.
-- A loose scan: its cost follows p_n, not the backlog.
CREATE OR REPLACE FUNCTION {schema}._tenants(p_queue text, p_fair boolean, p_after text, p_n int)
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
    SELECT r.fair_key INTO v_key FROM {schema}.ready r
     WHERE r.queue = p_queue AND r.fair_key > v_key ORDER BY r.fair_key LIMIT 1;
    IF NOT FOUND AND NOT v_wrapped THEN
      v_wrapped := true;
      SELECT r.fair_key INTO v_key FROM {schema}.ready r WHERE r.queue = p_queue ORDER BY r.fair_key LIMIT 1;
    END IF;
    EXIT WHEN v_key IS NULL OR v_key = ANY (v_found);
    v_found := v_found || v_key;
  END LOOP;
  RETURN QUERY SELECT u.key, p_n / cardinality(v_found) FROM unnest(v_found) AS u(key);
END $$;
