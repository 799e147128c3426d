-- discard_v1: an operator removes an ended job with its history, audited.
-- edge:   succeeded, failed, cancelled, skipped -> (gone)
-- gives:  discarded | active | in_doubt (resolve it first) | unknown
-- locks:  the outcome row: who deletes it owns what follows
CREATE OR REPLACE FUNCTION {schema}.discard_v1(p_job_id text, p_actor text, p_reason text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  j record;
BEGIN
  SELECT job.id, o.state, o.run_count
    INTO j FROM {schema}.job LEFT JOIN {schema}.outcome o ON o.id = job.id WHERE job.job_id = p_job_id;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF j.state IS NULL THEN RETURN 'active'; END IF;
  IF j.state = 'in_doubt' THEN RETURN 'in_doubt'; END IF;
  DELETE FROM {schema}.outcome o WHERE o.id = j.id AND o.run_count = j.run_count AND o.state = j.state;
  IF NOT FOUND THEN RETURN 'active'; END IF;
  DELETE FROM {schema}.job x WHERE x.id = j.id;
  DELETE FROM {schema}.carry x WHERE x.id = j.id;
  DELETE FROM {schema}.attempt x WHERE x.id = j.id;
  INSERT INTO {schema}.audit (id, actor, action, target, reason, was)
  VALUES (j.id, p_actor, 'discard', p_job_id, p_reason, j.state);
  RETURN 'discarded';
END $$;
