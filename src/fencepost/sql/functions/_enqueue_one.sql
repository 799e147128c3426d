-- _enqueue_one: one input whose answer is not settled by a look.
-- edge:   (nothing) -> queued, or failed, cancelled, skipped, succeeded-after-window -> queued
-- locks:  the ended job's outcome, then the key
--
-- Loop: look -> act by compare-and-set -> if somebody was faster, look again. Bounded; and at REPEATABLE READ a second
-- look sees nothing new, so there is none.
CREATE OR REPLACE FUNCTION {schema}._enqueue_one(
  p_id bigint, p_job_id text, p_task text, p_payload text, p_queue text, p_priority int, p_run_at timestamptz,
  p_key text, p_ckey text, p_o jsonb, p_on_terminal text, p_now timestamptz,
  OUT id bigint, OUT answer text, OUT holder text, OUT differs boolean
) LANGUAGE plpgsql AS $$
DECLARE
  v_look record;
BEGIN
  FOR try IN 1 .. CASE current_setting('transaction_isolation') WHEN 'read committed' THEN 5 ELSE 1 END LOOP
    SELECT l.* INTO v_look
      FROM {schema}._enqueue_look(ARRAY[true], ARRAY[p_id], ARRAY[p_job_id], ARRAY[p_task], ARRAY[p_payload],
                                  ARRAY[p_key], p_on_terminal) l;
    id := v_look.id;
    answer := v_look.answer;
    holder := v_look.holder;
    differs := v_look.differs;
    -- breakpoint: enqueue.looked
    IF answer = 'new' THEN
      IF p_key IS NOT NULL THEN
        INSERT INTO {schema}.held (scope, key, id) VALUES (p_task, p_key, p_id)
        ON CONFLICT ON CONSTRAINT held_pkey DO NOTHING;
        CONTINUE WHEN NOT FOUND;
      END IF;
      IF {schema}._enqueue_new(ARRAY[true], ARRAY[p_id], ARRAY[p_job_id], ARRAY[p_task], ARRAY[p_payload],
                               ARRAY[p_queue], ARRAY[p_priority], ARRAY[p_run_at], ARRAY[p_key], ARRAY[p_ckey],
                               ARRAY[p_o], p_now) IS NULL THEN
        DELETE FROM {schema}.held h WHERE h.id = p_id;
        CONTINUE;
      END IF;
      answer := 'created';
    ELSIF answer = 'again' THEN         -- whoever takes the outcome away owns the row's next life
      CONTINUE WHEN NOT {schema}._revive(id, v_look.run_count, p_task, p_key);
      UPDATE {schema}.job j
         SET task = p_task, payload = p_payload::jsonb, unique_key = p_key, ckey = p_ckey, resubmits = j.resubmits + 1,
             generation = j.generation + (v_look.was = 'succeeded')::int,
             run_at = coalesce(p_run_at, p_now + (p_o->>'delay_s')::float8 * interval '1 s', p_now),
             queue = coalesce(p_queue, t.queue, 'default'), priority = coalesce(p_priority, t.priority, 0),
             version = coalesce((p_o->>'version')::int, t.version, 1), tenant = p_o->>'tenant',
             start_by = (p_o->>'start_by')::timestamptz, finish_by = (p_o->>'finish_by')::timestamptz,
             max_attempts = (p_o->>'max_attempts')::smallint, dedup_s = (p_o->>'dedup_s')::float8,
             tags = CASE WHEN p_o ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(p_o->'tags')) END,
             meta = p_o->'meta'
        FROM (VALUES (1)) AS one LEFT JOIN {schema}.task t ON t.name = p_task
       WHERE j.id = v_look.id;
      DELETE FROM {schema}.carry c WHERE c.id = v_look.id;  -- new arguments: the old checkpoint means nothing
      PERFORM {schema}._queue_up(id, v_look.run_count, p_now);
      answer := 'resubmitted';
    END IF;
    RETURN;
  END LOOP;
  RAISE EXCEPTION 'fencepost: job % keeps changing', p_job_id USING ERRCODE = '40001';
END $$;
