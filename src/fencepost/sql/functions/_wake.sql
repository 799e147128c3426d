-- _wake: let parked rows in behind gates that have room; the gates are locked by the caller.
-- edge:   queued -> queued (parked -> ready)
-- locks:  parked rows with SKIP LOCKED: the one step backwards in the lock order
--
-- The best rows PER QUEUE: a paused or unserved queue must not sit on the key. Rather too many are woken than too few:
-- whoever finds the gate full is parked again.
CREATE OR REPLACE FUNCTION {schema}._wake(p_ckeys text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint[];
  v_left bigint[];
  v_arrived bigint[];
BEGIN
  v_id := ARRAY(
    SELECT x.id
      FROM {schema}.gate g
     CROSS JOIN LATERAL {schema}._parked_queues(g.ckey) AS w(queue)
     CROSS JOIN LATERAL (
       SELECT p.id FROM {schema}.parked p
        WHERE p.ckey = g.ckey AND p.queue = w.queue AND p.reason = 'key'
        ORDER BY p.priority DESC, p.run_at, p.id LIMIT greatest(g.lim::bigint - g.used, 0) FOR UPDATE SKIP LOCKED) x
     WHERE g.ckey = ANY (p_ckeys) AND g.used < g.lim);
  IF v_id = '{}' THEN RETURN; END IF;
  WITH woken AS (
    DELETE FROM {schema}.parked p WHERE p.id = ANY (v_id)
    RETURNING p.id, p.run_at, p.run_count, p.bytes, p.priority, p.attempts, p.crashes, p.snoozes, p.keyed, p.queue,
              p.fair_key, p.ckey, p.start_by, p.finish_by
  ), arrived AS (
    INSERT INTO {schema}.ready (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                fair_key, ckey, start_by, finish_by, epoch)
    SELECT w.id, w.run_at, w.run_count, w.bytes, w.priority, w.attempts, w.crashes, w.snoozes, w.keyed, w.queue,
           w.fair_key, w.ckey, w.start_by, w.finish_by,
           (SELECT {schema}._epoch())
      FROM woken w
    ON CONFLICT ON CONSTRAINT ready_pkey DO NOTHING
    RETURNING ready.id
  )
  SELECT (SELECT array_agg(w.id) FROM woken w), (SELECT array_agg(a.id) FROM arrived a) INTO v_left, v_arrived;
  IF cardinality(v_left) IS DISTINCT FROM cardinality(v_arrived) THEN
    PERFORM {schema}._put_aside('parked', 'wake: already ready', v_left, v_arrived);
  END IF;
END $$;
