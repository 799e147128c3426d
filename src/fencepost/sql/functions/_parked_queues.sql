-- _parked_queues: the queues in which rows are parked behind a key; a loose scan, its cost follows the queues.
CREATE OR REPLACE FUNCTION {schema}._parked_queues(p_ckey text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  v_queue text := '';
BEGIN
  LOOP
    SELECT p.queue INTO v_queue FROM {schema}.parked p
     WHERE p.ckey = p_ckey AND p.queue > v_queue AND p.reason = 'key' ORDER BY p.queue LIMIT 1;
    EXIT WHEN NOT FOUND;
    RETURN NEXT v_queue;
  END LOOP;
END $$;
