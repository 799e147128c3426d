-- _revive: take an ended job's outcome away if it is still that one, take its key, and log its last run.
-- edge:   ended -> (in no place yet: the caller queues it up)
-- gives:  false: somebody was faster; nothing has changed
-- locks:  the outcome row, then the key
CREATE OR REPLACE FUNCTION {schema}._revive(p_id bigint, p_run_count int, p_scope text, p_key text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  o {schema}.outcome;
BEGIN
  DELETE FROM {schema}.outcome x WHERE x.id = p_id AND x.run_count = p_run_count RETURNING x.* INTO o;
  IF NOT FOUND THEN RETURN false; END IF;
  -- breakpoint: revive.outcome_taken
  IF p_key IS NOT NULL THEN
    INSERT INTO {schema}.held (scope, key, id) VALUES (p_scope, p_key, p_id)
    ON CONFLICT ON CONSTRAINT held_pkey DO NOTHING;
    -- a job in doubt still holds its own
    IF NOT FOUND AND NOT EXISTS (SELECT FROM {schema}.held h WHERE h.id = p_id) THEN
      INSERT INTO {schema}.outcome SELECT (o).*;
      RETURN false;
    END IF;
  END IF;
  INSERT INTO {schema}.attempt (id, run_count, token, claimed_at, started_at, ended_at, last_beat_at, max_gap_s, how,
                                spent, error_code, error, stats, refused)
  SELECT o.id, o.run_count, o.token, o.claimed_at, o.started_at, o.finished_at, o.last_beat_at, o.max_gap_s,
         CASE WHEN o.stale THEN 'stale' ELSE o.state END, true, o.error_code, o.error, o.stats, coalesce(o.refused, 0)
   WHERE o.token IS NOT NULL
  ON CONFLICT ON CONSTRAINT attempt_pkey DO NOTHING;
  RETURN true;
END $$;
