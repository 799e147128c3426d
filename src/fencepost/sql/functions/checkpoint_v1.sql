-- checkpoint_v1: keep data for the next run of this job; durable when it returns, or with the caller's transaction.
-- fence:  (id, run_count, p_token)
-- gives:  false: the lease is lost, nothing was written
-- locks:  the running row, so that no rescue comes between
CREATE OR REPLACE FUNCTION {schema}.checkpoint_v1(p_token bigint, p_id bigint, p_run_count int, p_data jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM {schema}.running r
    WHERE r.id = p_id AND r.run_count = p_run_count AND r.token = p_token FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO {schema}.carry AS c (id, checkpoint) VALUES (p_id, p_data)
  ON CONFLICT (id) DO UPDATE SET checkpoint = excluded.checkpoint;
  RETURN true;
END $$;
