-- expire_v1: end waiting jobs whose start_by or finish_by has passed; the leader's sweep (a claim meets its own).
-- edge:   queued -> skipped (EXPIRED) | failed (DEADLINE)
-- gives:  how many ended
-- locks:  ready, delayed, parked, with SKIP LOCKED
CREATE OR REPLACE FUNCTION {schema}.expire_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_id bigint[];
BEGIN
  v_id := ARRAY(SELECT x.id FROM {schema}.ready x
                 WHERE least(x.start_by, x.finish_by) <= v_now AND coalesce(x.start_by, x.finish_by) IS NOT NULL
                 LIMIT p_limit FOR UPDATE SKIP LOCKED);
  v_id := v_id || ARRAY(SELECT x.id FROM {schema}.delayed x
                         WHERE least(x.start_by, x.finish_by) <= v_now AND coalesce(x.start_by, x.finish_by) IS NOT NULL
                         LIMIT p_limit FOR UPDATE SKIP LOCKED);
  v_id := v_id || ARRAY(SELECT x.id FROM {schema}.parked x
                         WHERE least(x.start_by, x.finish_by) <= v_now AND coalesce(x.start_by, x.finish_by) IS NOT NULL
                         LIMIT p_limit FOR UPDATE SKIP LOCKED);
  IF v_id = '{}' THEN RETURN 0; END IF;
  RETURN {schema}._end_queued(v_id, NULL, NULL, v_now);
END $$;
