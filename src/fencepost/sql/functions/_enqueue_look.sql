-- _enqueue_look: what enqueue would answer to these inputs, by plain reads of one snapshot.
-- gives:  per chosen input: exists | in_doubt | deduplicated | skipped (+ holder), which are final;
--         or again (an ended job that may be submitted anew) | new, which still have to be made true
-- locks:  none
CREATE OR REPLACE FUNCTION {schema}._enqueue_look(
  p_take boolean[], p_id bigint[], p_job_id text[], p_task text[], p_payload text[], p_key text[], p_on_terminal text
) RETURNS TABLE (ord int, answer text, id bigint, holder text, differs boolean, run_count int, was text)
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  SELECT look.ord, look.answer,
         CASE look.answer WHEN 'new' THEN look.new_id WHEN 'skipped' THEN look.holder_id ELSE look.known_id END,
         CASE look.answer WHEN 'skipped' THEN (SELECT j.job_id FROM {schema}.job j WHERE j.id = look.holder_id) END,
         look.known_id IS NOT NULL AND look.answer <> 'skipped' AND look.differs,
         look.run_count, look.state
    FROM (SELECT input.ord::int AS ord, input.id AS new_id, known.id AS known_id, holder.id AS holder_id,
                 ended.run_count, ended.state,
                 known.task IS DISTINCT FROM input.task
                   OR known.id IS NOT NULL AND known.payload IS DISTINCT FROM input.payload::jsonb AS differs,
                 CASE WHEN known.id IS NOT NULL AND ended.state IS NULL THEN 'exists'    -- no outcome: active
                      WHEN ended.state = 'in_doubt' THEN 'in_doubt'
                      WHEN ended.state = 'succeeded' AND ended.finished_at > v_now - {schema}._seconds(coalesce(
                             known.dedup_s, (SELECT t.dedup_s FROM {schema}.task t WHERE t.name = input.task), 86400))
                      THEN 'deduplicated'
                      WHEN ended.state IS NOT NULL AND p_on_terminal <> 'resubmit' THEN 'exists'
                      WHEN holder.id IS NOT NULL THEN 'skipped'
                      WHEN ended.state IS NOT NULL THEN 'again'
                      ELSE 'new' END AS answer
            FROM unnest(p_take, p_id, p_job_id, p_task, p_payload, p_key)
                   WITH ORDINALITY AS input(take, id, job_id, task, payload, key, ord)
            -- One table each, LATERAL with a LIMIT: index lookups for each row. A join would be planned by statistics of
            -- tables that may have been empty a moment ago, and then read one of them whole for each row.
            LEFT JOIN LATERAL (
              SELECT j.id, j.task, j.payload, j.dedup_s FROM {schema}.job j WHERE j.job_id = input.job_id LIMIT 1
            ) known ON true
            LEFT JOIN LATERAL (
              SELECT o.state, o.run_count, o.finished_at FROM {schema}.outcome o WHERE o.id = known.id LIMIT 1
            ) ended ON true
            LEFT JOIN LATERAL (
              SELECT h.id FROM {schema}.held h WHERE h.scope = input.task AND h.key = input.key LIMIT 1
            ) holder ON true
           WHERE input.take) look;
END $$;
