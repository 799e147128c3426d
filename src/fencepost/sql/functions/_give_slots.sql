-- _give_slots: give back one slot for each key in the list, and let the best parked rows in.
-- locks:  gates in key order. Lock, then look in a new statement: a row that was parked while we waited is seen
CREATE OR REPLACE FUNCTION {schema}._give_slots(p_ckeys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM {schema}.gate g WHERE g.ckey = ANY (p_ckeys) ORDER BY g.ckey FOR UPDATE;
  UPDATE {schema}.gate g SET used = greatest(g.used::bigint - n.given, 0)
    FROM (SELECT u.k, count(*)::int AS given FROM unnest(p_ckeys) AS u(k) GROUP BY u.k) n
   WHERE g.ckey = n.k;
  -- breakpoint: slots.given
  PERFORM {schema}._wake(p_ckeys);
END $$;
