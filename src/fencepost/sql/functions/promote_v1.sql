-- promote_v1: let in what is due, and give back the slots that users' transactions and rescues left behind.
-- edge:   queued -> queued (delayed -> ready)
-- gives:  how many rows were handled; called by any worker before a claim, and by the leader
-- locks:  delayed rows and slot_due rows with SKIP LOCKED, then gates in key order
CREATE OR REPLACE FUNCTION {schema}.promote_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_left bigint[];
  v_arrived bigint[];
  v_ckeys text[];
BEGIN
  WITH due AS (
    DELETE FROM {schema}.delayed x
     WHERE x.id = ANY (ARRAY(SELECT y.id FROM {schema}.delayed y WHERE y.run_at <= v_now
                              ORDER BY y.run_at, y.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
    RETURNING x.id, x.run_at, x.run_count, x.bytes, x.priority, x.attempts, x.crashes, x.snoozes, x.keyed, x.queue,
              x.fair_key, x.ckey, x.start_by, x.finish_by
  ), arrived AS (
    INSERT INTO {schema}.ready (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                fair_key, ckey, start_by, finish_by, epoch)
    SELECT d.id, d.run_at, d.run_count, d.bytes, d.priority, d.attempts, d.crashes, d.snoozes, d.keyed, d.queue,
           d.fair_key, d.ckey, d.start_by, d.finish_by,
           (SELECT {schema}._epoch())
      FROM due d
    ON CONFLICT ON CONSTRAINT ready_pkey DO NOTHING
    RETURNING ready.id
  )
  SELECT (SELECT array_agg(d.id) FROM due d), (SELECT array_agg(a.id) FROM arrived a) INTO v_left, v_arrived;
  IF cardinality(v_left) IS DISTINCT FROM cardinality(v_arrived) THEN
    PERFORM {schema}._put_aside('delayed', 'promote: already ready', v_left, v_arrived);
  END IF;

  WITH back AS (
    DELETE FROM {schema}.slot_due x
     WHERE x.id = ANY (ARRAY(SELECT y.id FROM {schema}.slot_due y ORDER BY y.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
    RETURNING x.ckey
  )
  SELECT array_agg(b.ckey) INTO v_ckeys FROM back b;
  IF v_ckeys IS NOT NULL THEN
    PERFORM {schema}._give_slots(v_ckeys);
  END IF;
  RETURN coalesce(cardinality(v_arrived), 0) + coalesce(cardinality(v_ckeys), 0);
END $$;
