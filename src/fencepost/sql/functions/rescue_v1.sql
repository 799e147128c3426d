-- rescue_v1: the reaper. Take runs whose lease is stale by the ttl that lies with it, on the database's clock.
-- edge:   running -> queued | failed (STALE, CRASH_LOOP, DEADLINE) | in_doubt | cancelled
-- gives:  what became of each, up to p_limit
-- locks:  running rows in id order with SKIP LOCKED; a beat that is being written wins, a beat that came first is seen
--
-- A beat of a time that no clock has shown is none: nobody would ever come for that lease. p_grace_s: time that live
-- workers get after a restart of the server (SPEC C11). p_seen_at: leases are judged as of this moment, at which the
-- service was found good; what came after it (a jump of the clock, a server that stood still) is judged by the next
-- look. A body that must not run twice and has no start mark is known not to have started: it goes back unspent (SPEC C6).
CREATE OR REPLACE FUNCTION {schema}.rescue_v1(p_limit int, p_grace_s float8 DEFAULT 0, p_seen_at timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, answer text, state text) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := least(clock_timestamp(), p_seen_at);
  v_after bigint := 0;
  v_done int := 0;
  v_n int;
  v_id bigint[];
  v_run_count int[];
  v_token bigint[];
  v_act text[];
BEGIN
  WHILE v_done < p_limit LOOP           -- page on past rows that could not be handled: they must not starve the others
    SELECT array_agg(s.id ORDER BY s.id), array_agg(s.run_count ORDER BY s.id), array_agg(s.token ORDER BY s.id),
           array_agg(s.act ORDER BY s.id)
      INTO v_id, v_run_count, v_token, v_act
      FROM (SELECT r.id, r.run_count, r.token,
                   CASE WHEN r.started_at IS NULL AND (r.at_most_once OR r.max_attempts = 1)
                        THEN 'release' ELSE 'lost' END AS act
              FROM {schema}.running r
             WHERE r.id > v_after
               AND coalesce(r.heartbeat_at, r.claimed_at)
                   NOT BETWEEN v_now - ({schema}._seconds(r.ttl_s) + p_grace_s * interval '1 s')
                           AND v_now + interval '10 years'
             ORDER BY r.id LIMIT p_limit - v_done FOR UPDATE SKIP LOCKED) s;
    EXIT WHEN v_id IS NULL;
    -- breakpoint: rescue.chosen
    RETURN QUERY
      SELECT x.id, x.answer, x.state
        FROM {schema}._rescue(v_id, v_run_count, v_token, v_act,
                              array_fill('no beat for longer than the lease'::text, ARRAY[cardinality(v_id)])) x;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    v_done := v_done + v_n;
    v_after := v_id[cardinality(v_id)];
  END LOOP;
END $$;
