-- claim_v1: take runnable jobs of several queues, each up to its quota (free slots), in one short statement.
-- edge:   queued -> running: run_count + 1, attempts + 1
-- fence:  makes it: (id, run_count, p_token)
-- gives:  a row per job, in the promised order (priority, run_at, id). A row with id NULL says: run_count rows were
--         moved aside (parked, expired) or left because their gate was busy: "claim again", which an empty answer does
--         not say
-- locks:  ready rows and gates, both SKIP LOCKED
--
-- p_ttl_s is for tasks without a ttl of their own. Fair queues: round-robin from p_after (the last fair_key served).
CREATE OR REPLACE FUNCTION {schema}.claim_v1(
  p_token bigint, p_queues text[], p_quotas int[], p_max_bytes bigint DEFAULT 16777216, p_ttl_s float8 DEFAULT 30,
  p_after text[] DEFAULT NULL
) RETURNS TABLE (
  id bigint, run_count int, job_id text, queue text, task text, version int, payload text, attempts smallint,
  max_attempts smallint, crashes smallint, snoozes smallint, generation int, at_most_once boolean, ttl_s float8,
  run_at timestamptz, created_at timestamptz, finish_by timestamptz, fair_key text, checkpoint text, meta text,
  tags text[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_first bigint;          -- the open epochs
  v_last bigint;
  v_chosen bigint[];
  v_bytes bigint;
  v_special boolean;
  v_aside int := 0;
BEGIN
  SELECT o.last_value + 1, e.last_value INTO v_first, v_last FROM {schema}.ready_over o, {schema}.ready_epoch e;
  -- Choose and lock. The ids go through an array: an index scan whatever the statistics say; and ids, not ctids, which
  -- repeat over partitions.
  IF EXISTS (SELECT FROM {schema}.queue q WHERE q.name = ANY (p_queues) AND q.fair) THEN
    SELECT array_agg(x.id), sum(x.bytes), bool_or(x.special) INTO v_chosen, v_bytes, v_special
      FROM unnest(p_queues, p_quotas, p_after) AS w(queue, quota, after)
      LEFT JOIN {schema}.queue q ON q.name = w.queue
     CROSS JOIN LATERAL {schema}._tenants(w.queue, coalesce(q.fair, false), coalesce(w.after, ''), w.quota, v_first, v_last)
             AS tn(fair_key, quota)
     CROSS JOIN LATERAL (
       SELECT z.id, z.bytes, z.special
         FROM generate_series(v_first, v_last) AS e(epoch)
        CROSS JOIN LATERAL (
          SELECT r.id, r.bytes, r.priority, r.run_at,
                 coalesce(r.ckey IS NOT NULL OR r.start_by <= v_now OR r.finish_by <= v_now
                            OR r.run_count = 2147483647, false) AS special
            FROM {schema}.ready r
           WHERE r.epoch = e.epoch AND r.queue = w.queue AND r.fair_key = tn.fair_key
           ORDER BY r.priority DESC, r.run_at, r.id LIMIT tn.quota FOR UPDATE SKIP LOCKED) z
        ORDER BY z.priority DESC, z.run_at, z.id LIMIT tn.quota) x
     WHERE q.paused IS NOT TRUE;
  ELSE
    SELECT array_agg(x.id), sum(x.bytes), bool_or(x.special) INTO v_chosen, v_bytes, v_special
      FROM unnest(p_queues, p_quotas) AS w(queue, quota)
      LEFT JOIN {schema}.queue q ON q.name = w.queue
     CROSS JOIN LATERAL (
       SELECT z.id, z.bytes, z.special
         FROM generate_series(v_first, v_last) AS e(epoch)
        CROSS JOIN LATERAL (
          SELECT r.id, r.bytes, r.fair_key, r.priority, r.run_at,
                 coalesce(r.ckey IS NOT NULL OR r.start_by <= v_now OR r.finish_by <= v_now
                            OR r.run_count = 2147483647, false) AS special
            FROM {schema}.ready r
           WHERE r.epoch = e.epoch AND r.queue = w.queue
           ORDER BY r.fair_key, r.priority DESC, r.run_at, r.id LIMIT w.quota FOR UPDATE SKIP LOCKED) z
        ORDER BY z.fair_key, z.priority DESC, z.run_at, z.id LIMIT w.quota) x
     WHERE q.paused IS NOT TRUE;
  END IF;
  IF v_chosen IS NULL THEN RETURN; END IF;
  -- breakpoint: claim.chosen
  IF v_bytes > p_max_bytes THEN                             -- the first row always goes, however large
    v_chosen := ARRAY(
      SELECT y.id
        FROM (SELECT c.id, c.n, sum(r.bytes) OVER (ORDER BY c.n) AS total
                FROM unnest(v_chosen) WITH ORDINALITY AS c(id, n) JOIN {schema}.ready r ON r.id = c.id) y
       WHERE y.total <= p_max_bytes OR y.n = 1 ORDER BY y.n);
  END IF;
  IF v_special THEN
    SELECT s.take, s.aside INTO v_chosen, v_aside FROM {schema}._sift(v_chosen, v_now) s;
  END IF;
  IF v_aside > 0 THEN
    id := NULL;
    run_count := v_aside;
    RETURN NEXT;
  END IF;

  -- Move. A row without job, or one that runs already, goes to quarantine with all it had: it must neither stop the
  -- others nor be handed out.
  RETURN QUERY
  WITH chosen AS (
    DELETE FROM {schema}.ready r WHERE r.id = ANY (v_chosen)
    RETURNING r.id, r.run_at, r.run_count, r.bytes, r.priority, r.attempts, r.crashes, r.snoozes, r.keyed, r.queue,
              r.fair_key, r.ckey, r.start_by, r.finish_by
  ), line AS MATERIALIZED (
    SELECT c.*, (j.id IS NULL OR x.id IS NOT NULL) AS bad, j.job_id, j.task, j.version, j.payload, j.generation,
           j.created_at, j.meta, j.tags,
           coalesce(j.max_attempts, t.max_attempts, 5)::smallint AS max_attempts,
           coalesce(t.max_crashes, 3)::smallint AS max_crashes, least(coalesce(t.ttl_s, p_ttl_s), 315360000) AS ttl_s,
           coalesce(t.on_lost, 'requeue') AS on_lost, coalesce(t.at_most_once, false) AS at_most_once,
           greatest(coalesce(t.keep_ok_s, 14 * 86400), coalesce(j.dedup_s, t.dedup_s, 86400)) AS keep_ok_s,
           coalesce(t.keep_bad_s, 90 * 86400) AS keep_bad_s
      FROM chosen c
      LEFT JOIN {schema}.job j ON j.id = c.id
      LEFT JOIN {schema}.task t ON t.name = j.task
      LEFT JOIN {schema}.running x ON x.id = c.id
  ), bad AS (
    INSERT INTO {schema}.quarantine (id, place, reason, line)
    SELECT l.id, 'ready', CASE WHEN l.job_id IS NULL THEN 'claim: no job row' ELSE 'claim: already running' END,
           to_jsonb(l) - 'payload'
      FROM line l WHERE l.bad
  ), lease AS (
    INSERT INTO {schema}.running (id, token, run_at, claimed_at, run_count, bytes, priority, attempts, crashes, snoozes,
                                  max_attempts, max_crashes, ttl_s, keep_ok_s, keep_bad_s, keyed, at_most_once, on_lost,
                                  queue, fair_key, ckey, start_by, finish_by)
    SELECT l.id, p_token, l.run_at, v_now, l.run_count + 1, l.bytes, l.priority, least(l.attempts + 1, 32000),
           l.crashes, l.snoozes, l.max_attempts, l.max_crashes, l.ttl_s, l.keep_ok_s, l.keep_bad_s, l.keyed,
           l.at_most_once, l.on_lost, l.queue, l.fair_key, l.ckey, l.start_by, l.finish_by
      FROM line l WHERE NOT l.bad
  )
  SELECT l.id, l.run_count + 1, l.job_id, l.queue, l.task, l.version, l.payload::text,
         least(l.attempts + 1, 32000)::smallint, l.max_attempts, l.crashes, l.snoozes, l.generation,
         nullif(l.at_most_once, false), l.ttl_s, l.run_at, l.created_at, l.finish_by, nullif(l.fair_key, ''),
         CASE WHEN l.run_count > 0
              THEN (SELECT c.checkpoint::text FROM {schema}.carry c WHERE c.id = l.id) END, l.meta::text, l.tags
    FROM line l WHERE NOT l.bad
   ORDER BY l.priority DESC, l.run_at, l.id;                -- the DELETE went in id order
END $$;
