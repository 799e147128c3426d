-- _enqueue_new: insert the chosen inputs and put them into their place, in one statement.
-- edge:   (nothing) -> queued
-- gives:  the ids that were made; an input whose job_id is known is left out
-- locks:  waits for an open transaction that has inserted the same job_id
CREATE OR REPLACE FUNCTION {schema}._enqueue_new(
  p_take boolean[], p_id bigint[], p_job_id text[], p_task text[], p_payload text[], p_queue text[], p_priority int[],
  p_run_at timestamptz[], p_key text[], p_ckey text[], p_opts jsonb[], p_now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_made bigint[];
BEGIN
  WITH made AS (
    INSERT INTO {schema}.job (id, job_id, task, version, queue, payload, priority, run_at, unique_key, ckey, tenant,
                              start_by, finish_by, max_attempts, dedup_s, tags, meta)
    SELECT u.id, u.job_id, u.task, coalesce((u.o->>'version')::int, t.version, 1),
           coalesce(u.queue, t.queue, 'default'), u.payload::jsonb, coalesce(u.priority, t.priority, 0),
           coalesce(u.run_at, p_now + (u.o->>'delay_s')::float8 * interval '1 s', p_now), u.key, u.ckey,
           u.o->>'tenant', (u.o->>'start_by')::timestamptz, (u.o->>'finish_by')::timestamptz,
           (u.o->>'max_attempts')::smallint, (u.o->>'dedup_s')::float8,
           CASE WHEN u.o ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(u.o->'tags')) END, u.o->'meta'
      FROM unnest(p_take, p_id, p_job_id, p_task, p_payload, p_queue, p_priority, p_run_at, p_key, p_ckey, p_opts)
             AS u(take, id, job_id, task, payload, queue, priority, run_at, key, ckey, o)
      LEFT JOIN {schema}.task t ON t.name = u.task
     WHERE u.take
     -- two callers with the same jobs insert them in the same order: keyed ones by their keys, the others by job_id
     ORDER BY CASE WHEN u.key IS NOT NULL THEN u.task END COLLATE "C" NULLS FIRST, u.key COLLATE "C" NULLS FIRST,
              u.job_id COLLATE "C", u.id
    ON CONFLICT ON CONSTRAINT job_job_id_key DO NOTHING     -- this conflict only: any other must be loud
    RETURNING job.id, job.queue, job.payload, job.priority, job.run_at, job.unique_key, job.ckey, job.tenant,
              job.start_by, job.finish_by
  ), line AS MATERIALIZED (
    SELECT m.id, m.run_at, pg_column_size(m.payload) AS bytes, m.priority, m.unique_key IS NOT NULL AS keyed, m.queue,
           CASE WHEN m.tenant IS NULL THEN '' ELSE {schema}._fair_key(m.queue, m.tenant) END AS fair_key,
           m.ckey, m.start_by, m.finish_by
      FROM made m
  ), due AS (
    INSERT INTO {schema}.ready (id, run_at, bytes, priority, keyed, queue, fair_key, ckey, start_by, finish_by, epoch)
    SELECT l.id, l.run_at, l.bytes, l.priority, l.keyed, l.queue, l.fair_key, l.ckey, l.start_by, l.finish_by,
           (SELECT {schema}._epoch())
      FROM line l WHERE l.run_at <= p_now
  ), later AS (
    INSERT INTO {schema}.delayed (id, run_at, bytes, priority, keyed, queue, fair_key, ckey, start_by, finish_by)
    SELECT l.id, l.run_at, l.bytes, l.priority, l.keyed, l.queue, l.fair_key, l.ckey, l.start_by, l.finish_by
      FROM line l WHERE l.run_at > p_now
  )
  SELECT array_agg(l.id) INTO v_made FROM line l;
  RETURN v_made;
END $$;
