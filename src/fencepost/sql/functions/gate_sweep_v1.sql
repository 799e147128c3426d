-- gate_sweep_v1: forget gates that say nothing (free, default limit, nobody parked). A claim that needs one makes it.
-- gives:  how many
-- locks:  gates with SKIP LOCKED. Lock, then look in a new statement
CREATE OR REPLACE FUNCTION {schema}.gate_sweep_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_ckeys text[];
  v_n int;
BEGIN
  v_ckeys := ARRAY(SELECT g.ckey FROM {schema}.gate g WHERE g.used = 0 AND g.lim = 1
                    ORDER BY g.ckey LIMIT p_limit FOR UPDATE SKIP LOCKED);
  DELETE FROM {schema}.gate g
   WHERE g.ckey = ANY (v_ckeys) AND g.used = 0
     AND NOT EXISTS (SELECT FROM {schema}.parked p WHERE p.ckey = g.ckey AND p.reason = 'key')
     AND NOT EXISTS (SELECT FROM {schema}.slot_due s WHERE s.ckey = g.ckey);
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
