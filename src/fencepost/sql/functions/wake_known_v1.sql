-- wake_known_v1: let in what was parked because no worker knew its task or version, if a live worker does by now.
-- edge:   queued -> queued (parked -> ready)
-- gives:  how many. Run at each registration *and* by the leader: a row that is being parked while the right worker
--         registers is found by the next round
--         A beat of the future keeps no worker alive: its jobs would be let in and parked again for ever
-- locks:  parked rows with SKIP LOCKED
CREATE OR REPLACE FUNCTION {schema}.wake_known_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_left bigint[];
  v_arrived bigint[];
BEGIN
  WITH woken AS (
    DELETE FROM {schema}.parked x
     WHERE x.id = ANY (ARRAY(
       SELECT p.id FROM {schema}.parked p JOIN {schema}.job j ON j.id = p.id
        WHERE p.reason = 'unknown'
          AND EXISTS (SELECT FROM {schema}.worker w
                       WHERE w.heartbeat_at BETWEEN clock_timestamp() - interval '60 s'
                                                AND clock_timestamp() + interval '60 s'
                         AND CASE jsonb_typeof(w.tasks->j.task) WHEN 'number'
                                  THEN (w.tasks->>j.task)::numeric >= j.version ELSE false END)
        ORDER BY p.parked_at LIMIT p_limit FOR UPDATE OF p SKIP LOCKED))
    RETURNING x.id, x.run_at, x.run_count, x.bytes, x.priority, x.attempts, x.crashes, x.snoozes, x.keyed, x.queue,
              x.fair_key, x.ckey, x.start_by, x.finish_by
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
  RETURN coalesce(cardinality(v_arrived), 0);
END $$;
