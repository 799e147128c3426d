-- _end_unmovable: end a run whose row no place of the queue takes (counters or texts that only a hand can have written):
-- failed, where it is seen and can be retried; in quarantine if it is over already.
-- edge:   running -> failed (UNSTORABLE)
-- locks:  the caller's running row, then held; never a gate
CREATE OR REPLACE FUNCTION {schema}._end_unmovable(p_id bigint, p_run_count int, p_token bigint, p_reason text)
RETURNS TABLE (id bigint, answer text, state text) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT s.* FROM {schema}._settle(ARRAY[p_id], ARRAY[p_run_count], ARRAY[p_token], ARRAY['fail'], NULL,
                                                ARRAY['UNSTORABLE'], ARRAY[p_reason], NULL, NULL, true) s;
EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation THEN
  PERFORM {schema}._quarantine_run(p_id, p_run_count, p_token, p_reason);
  RETURN QUERY SELECT p_id, 'accepted', 'quarantined';
END $$;
