-- enqueue_v1: add jobs, in the caller's transaction.
-- edge:   (nothing) -> queued; failed, cancelled, skipped, succeeded-after-window -> queued (the same row)
-- gives:  one answer per input, in order: created | exists | deduplicated | resubmitted | skipped (+ holder)
--         | in_doubt; `differs` says that the job_id is known with another task or other arguments
-- locks:  a unique job_id or key that another open transaction has inserted; nothing that a worker waits for
--
-- The hot options are arrays (a NULL array or element: the task's default); the rare ones lie in p_opts, one jsonb
-- each: version, delay_s, tenant, start_by, finish_by, max_attempts, dedup_s, tags, meta. p_on_terminal 'exists' is for
-- one's own retry of an enqueue whose answer was lost: the job may have failed meanwhile and must not be started anew.
-- No lock_timeout here: it runs in the caller's transaction, and an error would abort that.
CREATE OR REPLACE FUNCTION {schema}.enqueue_v1(
  p_job_id text[], p_task text[], p_payload text[], p_queue text[] DEFAULT NULL, p_priority int[] DEFAULT NULL,
  p_run_at timestamptz[] DEFAULT NULL, p_unique_key text[] DEFAULT NULL, p_ckey text[] DEFAULT NULL,
  p_opts jsonb[] DEFAULT NULL, p_on_terminal text DEFAULT 'resubmit', p_notify boolean DEFAULT false
) RETURNS TABLE (ord int, job_id text, id bigint, answer text, holder text, differs boolean)
LANGUAGE plpgsql AS $$
DECLARE
  v_n int := cardinality(p_job_id);
  v_now timestamptz := clock_timestamp();
  v_id bigint[];
  v_take boolean[];
  v_made bigint[];
  v_answer text[];
  v_holder text[];
  v_differs boolean[];
  v_bulk boolean := true;
  v_x record;
  v_a record;
BEGIN
  IF array_position(p_job_id, NULL) IS NOT NULL THEN
    p_job_id := ARRAY(SELECT coalesce(u.x, gen_random_uuid()::text)
                        FROM unnest(p_job_id) WITH ORDINALITY AS u(x, n) ORDER BY u.n);
  END IF;
  -- Ids first: they follow the input order (first in, first out among equals), while rows are inserted in an order that
  -- all callers share.
  v_id := ARRAY(SELECT nextval('{schema}.job_id_seq') FROM generate_series(1, v_n));
  v_answer := array_fill('created'::text, ARRAY[v_n]);
  v_holder := array_fill(NULL::text, ARRAY[v_n]);
  v_differs := array_fill(false, ARRAY[v_n]);

  -- 1. everything without a unique key, in one statement
  v_take := ARRAY(SELECT u.key IS NULL FROM unnest(p_unique_key, v_id) WITH ORDINALITY AS u(key, id, n) ORDER BY u.n);
  IF true = ANY (v_take) THEN
    v_made := {schema}._enqueue_new(v_take, v_id, p_job_id, p_task, p_payload, p_queue, p_priority, p_run_at,
                                    p_unique_key, p_ckey, p_opts, v_now);
  END IF;

  -- 2. the rest: conflicts, and what needs a unique key
  IF coalesce(cardinality(v_made), 0) < v_n THEN
    v_take := ARRAY(SELECT u.id NOT IN (SELECT unnest(v_made)) FROM unnest(v_id) WITH ORDINALITY AS u(id, n)
                     ORDER BY u.n);

    -- 2a. one look answers what is final; then v_take has what must still be made
    IF v_n > 1 THEN
      FOR v_x IN
        SELECT l.* FROM {schema}._enqueue_look(v_take, v_id, p_job_id, p_task, p_payload, p_unique_key, p_on_terminal) l
      LOOP
        v_take[v_x.ord] := v_x.answer IN ('new', 'again');
        v_bulk := v_bulk AND v_x.answer <> 'again';
        -- an ended job may be purged before it is revived; the new one must not get its id and run counts again
        CONTINUE WHEN v_take[v_x.ord];
        v_id[v_x.ord] := v_x.id;
        v_answer[v_x.ord] := v_x.answer;
        v_holder[v_x.ord] := v_x.holder;
        v_differs[v_x.ord] := v_x.differs;
      END LOOP;
      v_bulk := v_bulk AND true = ANY (v_take)
                AND {schema}._enqueue_keyed(v_take, v_id, p_job_id, p_task, p_payload, p_queue, p_priority, p_run_at,
                                            p_unique_key, p_ckey, p_opts, v_now);
    END IF;

    -- 2b. what could not be made at once: one by one, ordered by key, or by job_id where there is none. Two callers whose
    --     jobs have the same keys take them in the same order, as long as a job_id keeps its key. Jobs of one key come in
    --     the caller's own order, so that the first of them gets it: whoever has the key has nobody to wait for, and
    --     the others of that key are skipped without a lock.
    IF v_n = 1 OR NOT v_bulk THEN
      FOR v_x IN
        SELECT u.*
          FROM unnest(v_take, v_id, p_job_id, p_task, p_payload, p_queue, p_priority, p_run_at, p_unique_key, p_ckey,
                      p_opts) WITH ORDINALITY
                 AS u(take, id, job_id, task, payload, queue, priority, run_at, key, ckey, o, ord)
         WHERE u.take
         ORDER BY u.task COLLATE "C", u.key COLLATE "C" NULLS FIRST,
                  CASE WHEN u.key IS NULL THEN u.job_id END COLLATE "C", u.ord
      LOOP
        v_a := {schema}._enqueue_one(v_x.id, v_x.job_id, v_x.task, v_x.payload, v_x.queue, v_x.priority, v_x.run_at,
                                     v_x.key, v_x.ckey, v_x.o, p_on_terminal, v_now);
        v_id[v_x.ord] := v_a.id;
        v_answer[v_x.ord] := v_a.answer;
        v_holder[v_x.ord] := v_a.holder;
        v_differs[v_x.ord] := v_a.differs;
      END LOOP;
    END IF;
  END IF;

  IF p_notify AND v_answer && ARRAY['created', 'resubmitted'] THEN
    NOTIFY {schema};                                        -- constant payload: one per transaction
  END IF;
  RETURN QUERY
    SELECT u.ord::int, u.job_id, u.id, u.answer, u.holder, u.differs
      FROM unnest(p_job_id, v_id, v_answer, v_holder, v_differs)
             WITH ORDINALITY AS u(job_id, id, answer, holder, differs, ord);
END $$;
