-- gate_recount_v1: a safety net: count again what runs under these keys, and wake what waits behind a free gate.
-- gives:  how many gates were wrong
-- locks:  gates in key order
CREATE OR REPLACE FUNCTION {schema}.gate_recount_v1(p_ckeys text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_ckeys text[];
  v_n int;
BEGIN
  INSERT INTO {schema}.gate (ckey) SELECT DISTINCT u.k FROM unnest(p_ckeys) AS u(k) ORDER BY u.k
  ON CONFLICT (ckey) DO NOTHING;
  v_ckeys := ARRAY(SELECT g.ckey FROM {schema}.gate g WHERE g.ckey = ANY (p_ckeys) ORDER BY g.ckey FOR UPDATE);
  UPDATE {schema}.gate g SET used = x.n
    FROM (SELECT u.k, ((SELECT count(*) FROM {schema}.running r WHERE r.ckey = u.k)
                       + (SELECT count(*) FROM {schema}.slot_due s WHERE s.ckey = u.k))::int AS n
            FROM unnest(v_ckeys) AS u(k)) x
   WHERE g.ckey = x.k AND g.used <> x.n;
  GET DIAGNOSTICS v_n = ROW_COUNT;
  PERFORM {schema}._wake(v_ckeys);
  RETURN v_n;
END $$;
