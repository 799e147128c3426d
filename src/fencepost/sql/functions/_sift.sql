-- _sift: of ready rows that a claim has locked: end the expired and those whose next run would have no number, park
-- those whose gate is full, leave those whose gate is busy, and give back the rest.
-- edge:   queued -> skipped (EXPIRED), failed (DEADLINE; UNSTORABLE: no run can be counted any more); queued -> queued (ready -> parked)
-- gives:  take: the ids to run, in their order; aside: how many others there were
-- locks:  gates in key order with SKIP LOCKED
CREATE OR REPLACE FUNCTION {schema}._sift(p_chosen bigint[], p_now timestamptz, OUT take bigint[], OUT aside int)
LANGUAGE plpgsql AS $$
DECLARE
  v_dead bigint[];
  v_spent bigint[];
  v_ckeys text[];
  v_mine text[];
  v_park bigint[];
  v_left bigint[];
  v_arrived bigint[];
BEGIN
  v_dead := ARRAY(SELECT r.id FROM {schema}.ready r
                   WHERE r.id = ANY (p_chosen) AND (r.start_by <= p_now OR r.finish_by <= p_now) ORDER BY r.id);
  IF v_dead <> '{}' THEN
    PERFORM {schema}._end_queued(v_dead, NULL, NULL, p_now);
  END IF;

  v_spent := ARRAY(SELECT r.id FROM {schema}.ready r
                    WHERE r.id = ANY (p_chosen) AND r.run_count = 2147483647 ORDER BY r.id);
  IF v_spent <> '{}' THEN
    PERFORM {schema}._end_queued(v_spent, 'failed', 'UNSTORABLE', p_now);
  END IF;

  v_ckeys := ARRAY(SELECT DISTINCT r.ckey FROM {schema}.ready r
                    WHERE r.id = ANY (p_chosen) AND r.ckey IS NOT NULL ORDER BY r.ckey);
  INSERT INTO {schema}.gate (ckey)
  SELECT u.k FROM unnest(v_ckeys) AS u(k)
   WHERE NOT EXISTS (SELECT FROM {schema}.gate g WHERE g.ckey = u.k) ORDER BY u.k
  ON CONFLICT (ckey) DO NOTHING;
  v_mine := ARRAY(SELECT g.ckey FROM {schema}.gate g WHERE g.ckey = ANY (v_ckeys) ORDER BY g.ckey
                     FOR UPDATE SKIP LOCKED);
  -- breakpoint: sift.gates_locked

  -- A statement of its own: its snapshot comes after the lock. Not mine, or no gate row (a careless janitor, a
  -- restore): the row stays in ready, it is never lost.
  SELECT array_agg(s.id ORDER BY s.n) FILTER (WHERE s.ckey IS NULL OR s.free),
         array_agg(s.id) FILTER (WHERE s.mine AND NOT s.free),
         count(*) FILTER (WHERE s.ckey IS NOT NULL AND NOT s.free)
    INTO take, v_park, aside
    FROM (SELECT c.id, c.n, r.ckey, r.ckey = ANY (v_mine) AS mine,
                 r.ckey = ANY (v_mine)
                   AND coalesce(row_number() OVER (PARTITION BY r.ckey ORDER BY r.priority DESC, r.run_at, r.id)
                                <= g.lim::bigint - g.used, false) AS free
            FROM unnest(p_chosen) WITH ORDINALITY AS c(id, n)
            JOIN {schema}.ready r ON r.id = c.id
            LEFT JOIN {schema}.gate g ON g.ckey = r.ckey) s;
  aside := aside + cardinality(v_dead) + cardinality(v_spent);

  WITH blocked AS (
    DELETE FROM {schema}.ready r WHERE r.id = ANY (v_park)
    RETURNING r.id, r.run_at, r.run_count, r.bytes, r.priority, r.attempts, r.crashes, r.snoozes, r.keyed, r.queue,
              r.fair_key, r.ckey, r.start_by, r.finish_by
  ), arrived AS (
    INSERT INTO {schema}.parked (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                 fair_key, ckey, start_by, finish_by, reason)
    SELECT b.id, b.run_at, b.run_count, b.bytes, b.priority, b.attempts, b.crashes, b.snoozes, b.keyed, b.queue,
           b.fair_key, b.ckey, b.start_by, b.finish_by, 'key'
      FROM blocked b
    ON CONFLICT ON CONSTRAINT parked_pkey DO NOTHING
    RETURNING parked.id
  )
  SELECT (SELECT array_agg(b.id) FROM blocked b), (SELECT array_agg(a.id) FROM arrived a) INTO v_left, v_arrived;
  IF cardinality(v_left) IS DISTINCT FROM cardinality(v_arrived) THEN
    PERFORM {schema}._put_aside('ready', 'park: already parked', v_left, v_arrived);
  END IF;

  -- only rows that the claim will really move count against their gate
  UPDATE {schema}.gate g SET used = g.used + n.taken
    FROM (SELECT r.ckey, count(*)::int AS taken
            FROM {schema}.ready r
            JOIN {schema}.job j ON j.id = r.id
            LEFT JOIN {schema}.running x ON x.id = r.id
           WHERE r.id = ANY (take) AND r.ckey IS NOT NULL AND x.id IS NULL GROUP BY r.ckey) n
   WHERE g.ckey = n.ckey;
END $$;
