-- _count_refused: a late write of a run that was taken away is refused, and counted on that run's record (SPEC L3).
-- locks:  attempt and outcome rows with SKIP LOCKED: a count is not worth waiting for
CREATE OR REPLACE FUNCTION {schema}._count_refused(
  p_id bigint[], p_run_count int[], p_token bigint[], p_accepted bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH late AS (
    SELECT o.id
      FROM unnest(p_id, p_run_count, p_token) AS u(id, rc, token)
      JOIN {schema}.outcome o ON o.id = u.id AND o.run_count = u.rc AND o.token = u.token
     WHERE u.id NOT IN (SELECT unnest(p_accepted)) AND o.stale FOR NO KEY UPDATE OF o SKIP LOCKED
  )
  UPDATE {schema}.outcome o SET refused = coalesce(o.refused, 0) + 1 FROM late l WHERE o.id = l.id;
  WITH late AS (
    SELECT a.id, a.run_count
      FROM unnest(p_id, p_run_count, p_token) AS u(id, rc, token)
      JOIN {schema}.attempt a ON a.id = u.id AND a.run_count = u.rc AND a.token = u.token
     WHERE u.id NOT IN (SELECT unnest(p_accepted)) AND a.how IN ('stale', 'timeout') FOR NO KEY UPDATE OF a SKIP LOCKED
  )
  UPDATE {schema}.attempt a SET refused = a.refused + 1
    FROM late l WHERE a.id = l.id AND a.run_count = l.run_count;
END $$;
