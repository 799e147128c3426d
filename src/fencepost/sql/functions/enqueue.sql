-- enqueue: the public function for everybody else (psql, other languages), in the caller's own transaction (SPEC Q10).
-- gives:  one answer, as enqueue_v1; task defaults come from the table that workers publish
CREATE OR REPLACE FUNCTION {schema}.enqueue(
  p_task text, p_payload jsonb DEFAULT '{}', p_job_id text DEFAULT NULL, p_queue text DEFAULT NULL,
  p_priority int DEFAULT NULL, p_run_at timestamptz DEFAULT NULL, p_delay_s float8 DEFAULT NULL,
  p_unique_key text DEFAULT NULL, p_concurrency_key text DEFAULT NULL, p_tenant text DEFAULT NULL,
  p_start_by timestamptz DEFAULT NULL, p_finish_by timestamptz DEFAULT NULL, p_max_attempts int DEFAULT NULL,
  p_dedup_s float8 DEFAULT NULL, p_tags text[] DEFAULT NULL, p_meta jsonb DEFAULT NULL, p_notify boolean DEFAULT true,
  OUT answer text, OUT job_id text, OUT id bigint, OUT holder text, OUT differs boolean
) LANGUAGE plpgsql AS $$
BEGIN
  IF p_task IS NULL OR p_task = '' THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_task must name a task' USING ERRCODE = '22023';
  END IF;
  IF p_payload IS NULL OR jsonb_typeof(p_payload) <> 'object' THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_payload must be a JSON object of arguments' USING ERRCODE = '22023';
  END IF;
  IF p_run_at IS NOT NULL AND p_delay_s IS NOT NULL THEN
    RAISE EXCEPTION 'fencepost.enqueue: give p_run_at or p_delay_s, not both' USING ERRCODE = '22023';
  END IF;
  IF p_delay_s < 0 OR p_delay_s > 315360000 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_delay_s must be 0 to 315360000 seconds' USING ERRCODE = '22023';
  END IF;
  SELECT e.answer, e.job_id, e.id, e.holder, e.differs INTO answer, job_id, id, holder, differs
    FROM {schema}.enqueue_v1(
      ARRAY[p_job_id], ARRAY[p_task], ARRAY[p_payload::text], ARRAY[p_queue], ARRAY[p_priority], ARRAY[p_run_at],
      ARRAY[p_unique_key], ARRAY[p_concurrency_key],
      ARRAY[jsonb_strip_nulls(jsonb_build_object(
        'delay_s', p_delay_s, 'tenant', p_tenant, 'start_by', p_start_by, 'finish_by', p_finish_by,
        'max_attempts', p_max_attempts, 'dedup_s', p_dedup_s, 'tags', to_jsonb(p_tags), 'meta', p_meta))],
      'resubmit', p_notify) e;
END $$;
