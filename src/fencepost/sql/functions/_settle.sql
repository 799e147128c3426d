-- _settle: the body of settle_v1 and of the rescues; one token per row.
-- edge:   running -> succeeded, failed, skipped, in_doubt, cancelled, queued
-- fence:  (id, run_count, token), each row's own
-- locks:  running rows in id order, then held, then gates in key order
--
-- Plain INSERTs: ON CONFLICT would cost a tenth of a settle (speculative insertion, more WAL) to catch what never
-- happens; a collision is an error, and errors split the batch.
CREATE OR REPLACE FUNCTION {schema}._settle(
  p_id bigint[], p_run_count int[], p_token bigint[], p_act text[], p_delay float8[], p_code text[], p_error text[],
  p_result text[], p_stats text[], p_defer boolean
) RETURNS TABLE (o_id bigint, o_answer text, o_state text) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_done bigint[];      -- accepted,
  v_state text[];       -- what they became,
  v_keyed bigint[];     -- whose key is free,
  v_ckeys text[];       -- whose slots are free; w_*: the same of the second statement
  w_done bigint[];
  w_state text[];
  w_keyed bigint[];
  w_ckeys text[];
BEGIN
  -- 0. Two statements follow: rows of both kinds are locked first, so that the order is one over the whole batch.
  IF p_act && ARRAY['succeed', 'fail', 'skip', 'doubt', 'cancel']
     AND NOT p_act <@ ARRAY['succeed', 'fail', 'skip', 'doubt', 'cancel'] THEN
    PERFORM FROM (SELECT u.id, u.rc, u.token FROM unnest(p_id, p_run_count, p_token) AS u(id, rc, token)
                   ORDER BY u.id) u
      CROSS JOIN LATERAL (
        SELECT FROM {schema}.running y WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token
         LIMIT 1 FOR UPDATE) x;
  END IF;

  -- 1. Ends: what the handler decided is final, no policy applies.
  IF p_act && ARRAY['succeed', 'fail', 'skip', 'doubt', 'cancel'] THEN
    WITH proposal AS (
      SELECT u.id, u.rc, u.token, u.act, u.code, u.error, u.result, u.stats
        FROM unnest(p_id, p_run_count, p_token, p_act, p_code, p_error, p_result, p_stats)
               AS u(id, rc, token, act, code, error, result, stats)
       WHERE u.act IN ('succeed', 'fail', 'skip', 'doubt', 'cancel') ORDER BY u.id
    ), lease AS (
      DELETE FROM {schema}.running r USING proposal p
       WHERE r.id = p.id AND r.run_count = p.rc AND r.token = p.token
      RETURNING r.id, r.keyed, r.ckey,
                CASE p.act WHEN 'succeed' THEN 'succeeded' WHEN 'fail' THEN 'failed' WHEN 'skip' THEN 'skipped'
                           WHEN 'doubt' THEN 'in_doubt' ELSE 'cancelled' END AS state,
                r.token, r.claimed_at, r.run_count, r.attempts, r.crashes, r.snoozes, r.keep_ok_s, r.keep_bad_s,
                r.started_at, r.heartbeat_at, r.max_gap_s, p.code, p.error, p.result, p.stats
    ), ended AS (
      INSERT INTO {schema}.outcome (id, token, claimed_at, finished_at, purge_at, run_count, attempts, crashes, snoozes,
                                    state, started_at, last_beat_at, max_gap_s, error_code, error, result, stats)
      SELECT l.id, l.token, l.claimed_at, v_now,
             CASE l.state WHEN 'in_doubt' THEN NULL
                          ELSE v_now + {schema}._seconds(CASE l.state WHEN 'failed' THEN l.keep_bad_s ELSE l.keep_ok_s END) END,
             l.run_count, l.attempts, l.crashes, l.snoozes, l.state, l.started_at, l.heartbeat_at, l.max_gap_s, l.code,
             l.error, l.result::jsonb, l.stats::jsonb
        FROM lease l
    )
    SELECT array_agg(l.id), array_agg(l.state), array_agg(l.id) FILTER (WHERE l.keyed AND l.state <> 'in_doubt'),
           array_agg(l.ckey) FILTER (WHERE l.ckey IS NOT NULL)
      INTO v_done, v_state, v_keyed, v_ckeys FROM lease l;
  END IF;

  -- 2. Roads back to the queue: policy, cancel request and deadline on the lease are applied here, so that no edge can
  --    forget them.
  IF NOT p_act <@ ARRAY['succeed', 'fail', 'skip', 'doubt', 'cancel'] THEN
    WITH proposal AS (
      SELECT u.id, u.rc, u.token, u.act, u.delay, u.code, u.error, u.stats
        FROM unnest(p_id, p_run_count, p_token, p_act, p_delay, p_code, p_error, p_stats)
               AS u(id, rc, token, act, delay, code, error, stats)
       WHERE u.act NOT IN ('succeed', 'fail', 'skip', 'doubt', 'cancel') ORDER BY u.id
    ), lease AS (
      DELETE FROM {schema}.running r USING proposal p
       WHERE r.id = p.id AND r.run_count = p.rc AND r.token = p.token
      RETURNING r.*, p.code, p.error, p.stats,
        -- a started body that must not run twice is not handed back; a snooze beyond the hundredth spends an attempt
        CASE WHEN p.act IN ('release', 'park') AND r.started_at IS NOT NULL AND (r.at_most_once OR r.max_attempts = 1)
             THEN 'lost'
             WHEN p.act = 'snooze' AND r.snoozes >= 100 THEN 'retry'
             ELSE p.act END AS act,
        -- NaN and infinity fall to the upper bound; the second and later crashes wait, the first does not
        CASE WHEN p.act = 'lost' THEN CASE WHEN r.crashes <= 0 THEN 0 ELSE least(2 ^ least(r.crashes, 9), 300) END
             ELSE greatest(0, least(coalesce(p.delay, 0), 315360000)) END AS delay
    ), account AS (
      SELECT l.*, least(l.crashes + (l.act = 'lost')::int, 32000) AS crashes_now,
             l.act NOT IN ('release', 'snooze', 'park') AS spent, v_now + l.delay * interval '1 s' AS next_at
        FROM lease l
    ), verdict AS MATERIALIZED (
      SELECT a.*,
             CASE WHEN a.at_most_once AND a.act IN ('lost', 'timeout') THEN 'in_doubt'
                  WHEN a.at_most_once AND a.act = 'retry' THEN 'failed'
                  WHEN a.act = 'lost' AND a.on_lost = 'in_doubt' THEN 'in_doubt'
                  WHEN a.cancel_at IS NOT NULL THEN 'cancelled'
                  WHEN a.act = 'lost' AND (a.on_lost = 'fail' OR a.crashes_now >= a.max_crashes) THEN 'failed'
                  WHEN a.spent AND a.attempts >= a.max_attempts THEN 'failed'
                  WHEN a.finish_by <= a.next_at THEN 'failed' END AS state,
             CASE WHEN a.cancel_at IS NULL AND a.act = 'lost' AND a.on_lost = 'requeue' AND NOT a.at_most_once
                       AND a.crashes_now >= a.max_crashes THEN 'CRASH_LOOP'
                  WHEN a.cancel_at IS NOT NULL OR a.spent AND (a.at_most_once OR a.attempts >= a.max_attempts)
                       OR a.act = 'lost' AND a.on_lost <> 'requeue' THEN a.run_code
                  WHEN a.finish_by <= a.next_at THEN 'DEADLINE'
                  ELSE a.run_code END AS end_code,
             a.attempts - (NOT a.spent)::int AS attempts_left,
             least(a.snoozes + (a.act = 'snooze')::int, 32000) AS snoozes_now
        FROM (SELECT x.*, CASE x.act WHEN 'lost' THEN 'STALE' WHEN 'timeout' THEN coalesce(x.code, 'TIMEOUT')
                                     ELSE x.code END AS run_code FROM account x) a
    ), back AS MATERIALIZED (           -- the queue may have been made fair, or plain again, while they ran
      SELECT v.*, coalesce((SELECT j.tenant FROM {schema}.job j JOIN {schema}.queue q ON q.name = j.queue AND q.fair
                             WHERE j.id = v.id), '') AS fair_now
        FROM verdict v WHERE v.state IS NULL
    ), ended AS (
      INSERT INTO {schema}.outcome (id, token, claimed_at, finished_at, purge_at, run_count, attempts, crashes, snoozes,
                                    state, stale, started_at, last_beat_at, max_gap_s, error_code, error, stats)
      SELECT v.id, v.token, v.claimed_at, v_now,
             CASE v.state WHEN 'in_doubt' THEN NULL
                          ELSE v_now + {schema}._seconds(CASE v.state WHEN 'failed' THEN v.keep_bad_s ELSE v.keep_ok_s END) END,
             v.run_count, v.attempts, v.crashes_now, v.snoozes, v.state, v.act = 'lost', v.started_at, v.heartbeat_at,
             v.max_gap_s, v.end_code, v.error, v.stats::jsonb
        FROM verdict v WHERE v.state IS NOT NULL
    ), due AS (
      INSERT INTO {schema}.ready (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                  fair_key, ckey, start_by, finish_by, epoch)
      SELECT v.id, v.run_at, v.run_count, v.bytes, v.priority, v.attempts_left, v.crashes_now, v.snoozes_now, v.keyed,
             v.queue, v.fair_now, v.ckey, CASE WHEN NOT v.spent AND v.started_at IS NULL THEN v.start_by END,
             v.finish_by, (SELECT {schema}._epoch())
        FROM back v WHERE v.delay = 0 AND v.act <> 'park'
    ), later AS (
      INSERT INTO {schema}.delayed (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                    fair_key, ckey, finish_by, reason)
      SELECT v.id, v.next_at, v.run_count, v.bytes, v.priority, v.attempts_left, v.crashes_now, v.snoozes_now, v.keyed,
             v.queue, v.fair_now, v.ckey, v.finish_by,
             CASE v.act WHEN 'lost' THEN 'crash' WHEN 'snooze' THEN 'snooze' WHEN 'release' THEN 'snooze'
                        ELSE 'retry' END
        FROM back v WHERE v.delay > 0 AND v.act <> 'park'
    ), unknown AS (
      INSERT INTO {schema}.parked (id, run_at, run_count, bytes, priority, attempts, crashes, snoozes, keyed, queue,
                                   fair_key, ckey, start_by, finish_by, reason)
      SELECT v.id, v.run_at, v.run_count, v.bytes, v.priority, v.attempts_left, v.crashes, v.snoozes, v.keyed, v.queue,
             v.fair_now, v.ckey, v.start_by, v.finish_by, 'unknown'
        FROM back v WHERE v.act = 'park'
    ), history AS (
      INSERT INTO {schema}.attempt (id, run_count, token, claimed_at, started_at, ended_at, last_beat_at, max_gap_s,
                                    how, spent, error_code, error, stats)
      SELECT v.id, v.run_count, v.token, v.claimed_at, v.started_at, v_now, v.heartbeat_at, v.max_gap_s,
             CASE v.act WHEN 'lost' THEN 'stale' ELSE v.act END, v.spent, v.run_code, v.error, v.stats::jsonb
        FROM verdict v WHERE v.state IS NULL
      ON CONFLICT ON CONSTRAINT attempt_pkey DO NOTHING
    ), carried AS (
      -- the last error is of the last run that had one: a hand-back without a text keeps what is there
      INSERT INTO {schema}.carry AS c (id, error_code, error, progress)
      SELECT v.id, CASE WHEN v.spent OR v.error IS NOT NULL THEN v.run_code END, v.error, v.progress
        FROM verdict v
       WHERE v.state IS NULL AND (v.spent OR v.error IS NOT NULL OR v.progress IS NOT NULL)
      ON CONFLICT (id) DO UPDATE
        SET error_code = coalesce(excluded.error_code, c.error_code),
            error = CASE WHEN excluded.error_code IS NULL AND excluded.error IS NULL THEN c.error
                         ELSE excluded.error END,
            progress = coalesce(excluded.progress, c.progress)
    )
    SELECT array_agg(v.id), array_agg(coalesce(v.state, 'queued')),
           array_agg(v.id) FILTER (WHERE v.keyed AND v.state <> 'in_doubt'),
           array_agg(v.ckey) FILTER (WHERE v.ckey IS NOT NULL)
      INTO w_done, w_state, w_keyed, w_ckeys FROM verdict v;
    v_done := v_done || w_done;
    v_state := v_state || w_state;
    v_keyed := v_keyed || w_keyed;
    v_ckeys := v_ckeys || w_ckeys;
  END IF;
  -- breakpoint: settle.moved

  -- 3. What the ended runs held.
  IF v_keyed IS NOT NULL THEN
    DELETE FROM {schema}.held h WHERE h.id = ANY (v_keyed);
  END IF;
  IF v_ckeys IS NOT NULL THEN
    IF p_defer THEN
      INSERT INTO {schema}.slot_due (ckey) SELECT u.k FROM unnest(v_ckeys) AS u(k);
    ELSE
      PERFORM {schema}._give_slots(v_ckeys);
    END IF;
  END IF;

  -- 4. What was given back or lost is for whoever is idle; what its own worker tries again later is not news.
  IF p_act && ARRAY['release', 'lost'] AND 'queued' = ANY (v_state) THEN
    NOTIFY {schema};
  END IF;

  -- 5. Answers. What was not accepted is either known of the same run (an answer was lost) or lost.
  RETURN QUERY SELECT u.id, 'accepted', u.state FROM unnest(v_done, v_state) AS u(id, state);
  IF coalesce(cardinality(v_done), 0) < cardinality(p_id) THEN
    PERFORM {schema}._count_refused(p_id, p_run_count, p_token, v_done);
    RETURN QUERY
      SELECT u.id, CASE WHEN o.id IS NOT NULL AND NOT o.stale OR a.id IS NOT NULL THEN 'already' ELSE 'lost' END,
             coalesce(o.state, CASE WHEN a.id IS NOT NULL THEN 'queued' END)
        FROM unnest(p_id, p_run_count, p_token) AS u(id, rc, token)
        LEFT JOIN {schema}.outcome o ON o.id = u.id AND o.run_count = u.rc AND o.token = u.token
        LEFT JOIN {schema}.attempt a ON a.id = u.id AND a.run_count = u.rc AND a.token = u.token
             AND a.how NOT IN ('stale', 'timeout')
       WHERE u.id NOT IN (SELECT unnest(v_done));
  END IF;
END $$;
