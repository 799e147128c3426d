-- settle_v1: the one road out of running.
-- edge:   running -> succeeded, failed, skipped, in_doubt, cancelled, queued
-- fence:  (id, run_count, p_token)
-- gives:  per id: accepted (+ the state that it became, which a cancel request, a deadline or the policy may have
--         changed) | already (same run, same token: an answer was lost) | lost (another run has it, or it was taken
--         away) | busy (lock timeout on this row: send it again)
-- locks:  running rows in id order, then held, then gates in key order
--
-- p_act is what the worker proposes: succeed fail skip doubt cancel | retry snooze release park lost timeout
-- (lost: as the reaper would judge it; timeout: a body that was killed at its limit). p_defer: inside a user's
-- transaction (SPEC E1); key slots are then given back after the commit, by promote_v1, and no subtransaction is
-- opened, since more than 64 in one transaction overflow the snapshot cache of everybody. An error is then the user's.
CREATE OR REPLACE FUNCTION {schema}.settle_v1(
  p_token bigint, p_id bigint[], p_run_count int[], p_act text[], p_delay_s float8[] DEFAULT NULL,
  p_code text[] DEFAULT NULL, p_error text[] DEFAULT NULL, p_result text[] DEFAULT NULL, p_stats text[] DEFAULT NULL,
  p_defer boolean DEFAULT false
) RETURNS TABLE (id bigint, answer text, state text) LANGUAGE plpgsql AS $$
DECLARE
  v_token bigint[] := array_fill(p_token, ARRAY[cardinality(p_id)]);
  k int;
BEGIN
  IF p_defer THEN
    RETURN QUERY SELECT s.* FROM {schema}._settle(p_id, p_run_count, v_token, p_act, p_delay_s, p_code, p_error,
                                                  p_result, p_stats, true) s;
    RETURN;
  END IF;
  BEGIN                                 -- all together, nearly always
    RETURN QUERY SELECT s.* FROM {schema}._settle(p_id, p_run_count, v_token, p_act, p_delay_s, p_code, p_error,
                                                  p_result, p_stats, false) s;
    RETURN;
  EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation OR lock_not_available THEN
    NULL;
  END;

  -- One by one, in id order: the offender alone gets an outcome made of constants. Slots are deferred, so that no gate is
  -- waited for while others are held.
  FOR k IN SELECT u.k FROM unnest(p_id) WITH ORDINALITY AS u(id, k) ORDER BY u.id LOOP
    BEGIN
      RETURN QUERY SELECT s.* FROM {schema}._settle(
        p_id[k:k], p_run_count[k:k], v_token[k:k], p_act[k:k], p_delay_s[k:k], p_code[k:k], p_error[k:k], p_result[k:k],
        p_stats[k:k], true) s;
    EXCEPTION
      WHEN lock_not_available THEN
        RETURN QUERY SELECT p_id[k], 'busy', NULL::text;
      WHEN unique_violation THEN
        PERFORM {schema}._quarantine_run(p_id[k], p_run_count[k], p_token, 'settle: the target was taken');
        RETURN QUERY SELECT p_id[k], 'accepted', 'quarantined';
      WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation THEN
        BEGIN
          RETURN QUERY SELECT s.* FROM {schema}._settle(
            p_id[k:k], p_run_count[k:k], v_token[k:k],
            ARRAY[CASE p_act[k] WHEN 'succeed' THEN 'fail' ELSE p_act[k] END], p_delay_s[k:k], ARRAY['UNSTORABLE'], NULL,
            NULL, NULL, true) s;
        EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation THEN
          -- not the outcome: the lease itself fits into no place of the queue
          RETURN QUERY SELECT s.* FROM {schema}._end_unmovable(p_id[k], p_run_count[k], p_token, 'settle: ' || SQLERRM) s;
        END;
    END;
  END LOOP;
END $$;
