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
DECLARE
  -- white space at an end, or what Python's str.isprintable() denies, which is how a worker checks its queues: controls,
  -- formats (direction marks, joiners), blanks other than the space, private use, no characters. Not [[:print:]]: the
  -- classes depend on the locale. What Unicode has not assigned yet is let through: that depends on the release.
  v_unfit CONSTANT text := $q$^[[:space:]]|[[:space:]]$|[\u0001-\u001F\u007F-\u00A0\u00AD\u0600-\u0605\u061C\u06DD\u070F$q$
    || $q$\u0890\u0891\u08E2\u1680\u180E\u2000-\u200F\u2028-\u202F\u205F-\u206F\u3000\uE000-\uF8FF\uFDD0-\uFDEF\uFEFF$q$
    || $q$\uFFF9-\uFFFB\uFFFE\uFFFF\U000110BD\U000110CD\U00013430-\U0001343F\U0001BCA0-\U0001BCA3$q$
    || $q$\U0001D173-\U0001D17A\U0001FFFE\U0001FFFF\U0002FFFE\U0002FFFF\U0003FFFE-\U000E00FF\U000E01F0-\U0010FFFF]$q$;
  v_opts jsonb;
  v_field text;
  v_most int;
BEGIN
  IF p_task IS NULL THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_task must name a task' USING ERRCODE = '22023';
  END IF;
  -- What no Python program could name or read back is refused here, as it is there.
  SELECT f.field, f.most INTO v_field, v_most
    FROM (VALUES ('p_task', p_task, 128), ('p_queue', p_queue, 128), ('p_job_id', p_job_id, 512),
                 ('p_unique_key', p_unique_key, 512), ('p_concurrency_key', p_concurrency_key, 512),
                 ('p_tenant', p_tenant, 512)) AS f(field, value, most)
   WHERE length(f.value) NOT BETWEEN 1 AND f.most OR f.value ~ v_unfit LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'fencepost.enqueue: % must have 1 to % printable characters, without white space at its ends',
      v_field, v_most USING ERRCODE = '22023';
  END IF;
  IF p_payload IS NULL OR jsonb_typeof(p_payload) <> 'object' OR octet_length(p_payload::text) > 262144 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_payload must be a JSON object of arguments of at most 256 KiB'
      USING ERRCODE = '22023';
  END IF;
  IF jsonb_typeof(p_meta) NOT IN ('object', 'null') OR octet_length(p_meta::text) > 8192 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_meta must be a JSON object of at most 8 KiB' USING ERRCODE = '22023';
  END IF;
  SELECT f.field INTO v_field
    FROM (VALUES ('p_payload', p_payload), ('p_meta', p_meta)) AS f(field, value)
   WHERE jsonb_path_exists(f.value, 'strict $.**{100}')
      OR jsonb_path_exists(f.value, 'strict $.** ? (@ >= 1e4300 || @ <= -1e4300)') LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'fencepost.enqueue: % must not be nested deeper than 100 levels or hold numbers of more than 4300 digits',
      v_field USING ERRCODE = '22023';
  END IF;
  IF array_ndims(p_tags) > 1 OR cardinality(p_tags) > 20 OR EXISTS (
       SELECT FROM unnest(p_tags) AS t(tag)
        WHERE t.tag IS NULL OR length(t.tag) NOT BETWEEN 1 AND 100 OR t.tag ~ v_unfit) THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_tags must be at most 20 words of 1 to 100 printable characters'
      USING ERRCODE = '22023';
  END IF;
  IF p_run_at IS NOT NULL AND p_delay_s IS NOT NULL THEN
    RAISE EXCEPTION 'fencepost.enqueue: give p_run_at or p_delay_s, not both' USING ERRCODE = '22023';
  END IF;
  SELECT f.field INTO v_field
    FROM (VALUES ('p_run_at', p_run_at), ('p_start_by', p_start_by), ('p_finish_by', p_finish_by)) AS f(field, value)
   WHERE f.value < timestamptz '1970-01-01 00:00:00+00' OR f.value >= timestamptz '10000-01-01 00:00:00+00' LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'fencepost.enqueue: % must lie between the years 1970 and 9999', v_field USING ERRCODE = '22023';
  END IF;
  IF p_finish_by <= p_start_by OR p_finish_by <= p_run_at THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_finish_by must be later than p_start_by and p_run_at'
      USING ERRCODE = '22023';
  END IF;
  IF p_start_by < p_run_at THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_start_by must not be earlier than p_run_at' USING ERRCODE = '22023';
  END IF;
  IF p_delay_s NOT BETWEEN 0 AND 315360000 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_delay_s must be 0 to 315360000 seconds' USING ERRCODE = '22023';
  END IF;
  IF p_dedup_s NOT BETWEEN 0 AND 315360000 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_dedup_s must be 0 to 315360000 seconds' USING ERRCODE = '22023';
  END IF;
  IF p_priority NOT BETWEEN -32000 AND 32000 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_priority must be -32000 to 32000' USING ERRCODE = '22023';
  END IF;
  IF p_max_attempts NOT BETWEEN 1 AND 32000 THEN
    RAISE EXCEPTION 'fencepost.enqueue: p_max_attempts must be 1 to 32000' USING ERRCODE = '22023';
  END IF;
  -- a NULL argument is not an option; nulls inside the metadata are the caller's
  SELECT jsonb_object_agg(o.key, o.value) INTO v_opts
    FROM jsonb_each(jsonb_build_object(
           'delay_s', p_delay_s, 'tenant', p_tenant, 'start_by', p_start_by, 'finish_by', p_finish_by,
           'max_attempts', p_max_attempts, 'dedup_s', p_dedup_s, 'tags', p_tags, 'meta', p_meta)) AS o(key, value)
   WHERE o.value <> 'null';
  SELECT e.answer, e.job_id, e.id, e.holder, e.differs INTO answer, job_id, id, holder, differs
    FROM {schema}.enqueue_v1(
      ARRAY[p_job_id], ARRAY[p_task], ARRAY[p_payload::text], ARRAY[p_queue], ARRAY[p_priority], ARRAY[p_run_at],
      ARRAY[p_unique_key], ARRAY[p_concurrency_key], ARRAY[v_opts], 'resubmit', p_notify) e;
END $$;
