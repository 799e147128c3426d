-- purge_v1: remove one batch whose time is over; daily counts by task, state and code stay.
-- edge:   succeeded, failed, cancelled, skipped -> (gone)
-- gives:  how many; call again until fewer than p_limit
-- locks:  outcome rows with SKIP LOCKED
--
-- purge_at already contains the dedup window, and is NULL in doubt: neither can be purged by mistake (SPEC L4).
CREATE OR REPLACE FUNCTION {schema}.purge_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint[];
BEGIN
  v_id := ARRAY(SELECT o.id FROM {schema}.outcome o WHERE o.purge_at <= clock_timestamp()
                 ORDER BY o.purge_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  IF v_id = '{}' THEN RETURN 0; END IF;
  WITH ended AS (
    DELETE FROM {schema}.outcome x WHERE x.id = ANY (v_id)
    RETURNING x.state, x.error_code, x.finished_at, (SELECT j.task FROM {schema}.job j WHERE j.id = x.id) AS task
  ), identity AS (
    DELETE FROM {schema}.job x WHERE x.id = ANY (v_id)
  ), carried AS (
    DELETE FROM {schema}.carry x WHERE x.id = ANY (v_id)
  ), history AS (
    DELETE FROM {schema}.attempt x WHERE x.id = ANY (v_id)
  ), tally AS (
    SELECT e.finished_at::date AS day, coalesce(e.task, '?') AS task, e.state, coalesce(e.error_code, '') AS code,
           count(*) AS n
      FROM ended e GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  )
  INSERT INTO {schema}.daily AS d (day, task, state, code, n)
  SELECT t.day, t.task, t.state, t.code, t.n FROM tally t
  ON CONFLICT (day, task, state, code) DO UPDATE SET n = d.n + excluded.n;
  RETURN cardinality(v_id);
END $$;
