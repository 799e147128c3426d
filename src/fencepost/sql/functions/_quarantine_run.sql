-- _quarantine_run: put aside a lease that can go nowhere (its job is somewhere else already), with all it had; its slot
-- is given back.
CREATE OR REPLACE FUNCTION {schema}._quarantine_run(p_id bigint, p_run_count int, p_token bigint, p_reason text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH lease AS (
    DELETE FROM {schema}.running r WHERE r.id = p_id AND r.run_count = p_run_count AND r.token = p_token RETURNING r.*
  ), slot AS (
    INSERT INTO {schema}.slot_due (ckey) SELECT l.ckey FROM lease l WHERE l.ckey IS NOT NULL
  )
  INSERT INTO {schema}.quarantine (id, place, reason, line) SELECT l.id, 'running', p_reason, to_jsonb(l) FROM lease l;
  DELETE FROM {schema}.held h
   WHERE h.id = p_id AND EXISTS (SELECT FROM {schema}.outcome o WHERE o.id = p_id AND o.state <> 'in_doubt');
END $$;
