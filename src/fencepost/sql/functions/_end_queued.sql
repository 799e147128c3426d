-- _end_queued: end waiting jobs, in whatever place they wait.
-- edge:   queued -> p_state; p_state NULL: by their own deadlines, failed (DEADLINE) or skipped (EXPIRED)
-- gives:  how many ended
-- locks:  ready, delayed, parked, in id order
CREATE OR REPLACE FUNCTION {schema}._end_queued(p_id bigint[], p_state text, p_code text, p_now timestamptz)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_left bigint[];
  v_arrived bigint[];
BEGIN
  WITH from_ready AS (
    DELETE FROM {schema}.ready x WHERE x.id = ANY (p_id)
    RETURNING x.id, x.run_count, x.attempts, x.crashes, x.snoozes, x.finish_by
  ), from_delayed AS (
    DELETE FROM {schema}.delayed x WHERE x.id = ANY (p_id)
    RETURNING x.id, x.run_count, x.attempts, x.crashes, x.snoozes, x.finish_by
  ), from_parked AS (
    DELETE FROM {schema}.parked x WHERE x.id = ANY (p_id)
    RETURNING x.id, x.run_count, x.attempts, x.crashes, x.snoozes, x.finish_by
  ), fate AS MATERIALIZED (
    SELECT w.id, w.run_count, w.attempts, w.crashes, w.snoozes,
           coalesce(p_state, CASE WHEN w.finish_by <= p_now THEN 'failed' ELSE 'skipped' END) AS state
      FROM (SELECT * FROM from_ready UNION ALL SELECT * FROM from_delayed UNION ALL SELECT * FROM from_parked) w
  ), ended AS (
    INSERT INTO {schema}.outcome (id, finished_at, purge_at, run_count, attempts, crashes, snoozes, state, error_code)
    SELECT f.id, p_now,
           p_now + {schema}._seconds(CASE f.state WHEN 'failed' THEN coalesce(t.keep_bad_s, 90 * 86400)
                                                  ELSE coalesce(t.keep_ok_s, 14 * 86400) END),
           f.run_count, f.attempts, f.crashes, f.snoozes, f.state,
           coalesce(p_code, CASE f.state WHEN 'failed' THEN 'DEADLINE' WHEN 'skipped' THEN 'EXPIRED' END)
      FROM fate f LEFT JOIN {schema}.job j ON j.id = f.id LEFT JOIN {schema}.task t ON t.name = j.task
    ON CONFLICT ON CONSTRAINT outcome_pkey DO NOTHING
    RETURNING outcome.id
  )
  SELECT (SELECT array_agg(f.id) FROM fate f), (SELECT array_agg(e.id) FROM ended e) INTO v_left, v_arrived;
  IF cardinality(v_left) IS DISTINCT FROM cardinality(v_arrived) THEN
    PERFORM {schema}._put_aside('queued', 'end: already over', v_left, v_arrived);
  END IF;
  -- breakpoint: end.moved
  DELETE FROM {schema}.held h WHERE h.id = ANY (v_left);
  RETURN coalesce(cardinality(v_arrived), 0);
END $$;
