-- gate_limit_v1: set how many jobs of a concurrency key may run at once; 0 stops them. A higher limit lets in at once.
-- locks:  the gate
CREATE OR REPLACE FUNCTION {schema}.gate_limit_v1(p_ckey text, p_lim int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.gate AS g (ckey, lim) VALUES (p_ckey, p_lim)
  ON CONFLICT (ckey) DO UPDATE SET lim = excluded.lim;
  PERFORM {schema}._wake(ARRAY[p_ckey]);
END $$;
