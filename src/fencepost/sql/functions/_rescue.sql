-- _rescue: settle runs that were taken away; a bad row loses itself, not the others (SPEC C12).
-- gives:  what became of each; a row that was locked is left for the next round and not given
-- locks:  the caller's running rows, then held; never a gate: slots are deferred, promote_v1 gives them back
CREATE OR REPLACE FUNCTION {schema}._rescue(
  p_id bigint[], p_run_count int[], p_token bigint[], p_act text[], p_error text[]
) RETURNS TABLE (id bigint, answer text, state text) LANGUAGE plpgsql AS $$
BEGIN
  BEGIN
    RETURN QUERY SELECT s.* FROM {schema}._settle(p_id, p_run_count, p_token, p_act, NULL, NULL, p_error, NULL, NULL,
                                                  true) s;
    RETURN;
  EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation OR lock_not_available THEN
    NULL;
  END;
  FOR k IN 1 .. cardinality(p_id) LOOP
    BEGIN
      RETURN QUERY SELECT s.* FROM {schema}._settle(p_id[k:k], p_run_count[k:k], p_token[k:k], p_act[k:k], NULL, NULL,
                                                    p_error[k:k], NULL, NULL, true) s;
    EXCEPTION
      WHEN lock_not_available THEN
        NULL;
      WHEN unique_violation THEN
        PERFORM {schema}._quarantine_run(p_id[k], p_run_count[k], p_token[k], 'rescue: ' || SQLERRM);
      WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation THEN
        RETURN QUERY SELECT s.* FROM {schema}._end_unmovable(p_id[k], p_run_count[k], p_token[k], 'rescue: ' || SQLERRM) s;
    END;
  END LOOP;
END $$;
