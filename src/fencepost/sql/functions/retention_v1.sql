-- retention_v1: after a task's retention has changed, write the new purge_at to what has already ended, in batches.
-- gives:  the id to go on after, and how many rows of this batch changed; no id: it was the last batch
-- locks:  outcome rows with SKIP LOCKED; a row that is busy is being submitted anew or purged
CREATE OR REPLACE FUNCTION {schema}.retention_v1(
  p_task text, p_limit int, p_after bigint DEFAULT 0, OUT go_on_after bigint, OUT changed int
) LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint[];
BEGIN
  v_id := ARRAY(SELECT j.id FROM {schema}.job j WHERE j.id > p_after AND j.task = p_task ORDER BY j.id LIMIT p_limit);
  go_on_after := CASE WHEN cardinality(v_id) = p_limit THEN v_id[p_limit] END;
  WITH wanted AS (
    SELECT o.id, -- an end that is still to come would leave the years that there are
           least(o.finished_at, clock_timestamp())
             + {schema}._seconds(CASE o.state WHEN 'failed' THEN t.keep_bad_s
                                   ELSE greatest(t.keep_ok_s, coalesce(j.dedup_s, t.dedup_s)) END) AS purge_at
      FROM unnest(v_id) AS u(id)
      JOIN {schema}.outcome o ON o.id = u.id
      JOIN {schema}.job j ON j.id = u.id
      JOIN {schema}.task t ON t.name = j.task
     WHERE o.state <> 'in_doubt' FOR NO KEY UPDATE OF o SKIP LOCKED
  )
  UPDATE {schema}.outcome o SET purge_at = w.purge_at
    FROM wanted w WHERE o.id = w.id AND o.purge_at IS DISTINCT FROM w.purge_at;
  GET DIAGNOSTICS changed = ROW_COUNT;
END $$;
