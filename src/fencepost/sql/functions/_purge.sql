-- _purge: remove these ended jobs with their history; the caller holds their outcome rows.
CREATE OR REPLACE FUNCTION {schema}._purge(p_id bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WITH ended AS (
    DELETE FROM {schema}.outcome x WHERE x.id = ANY (p_id)
    RETURNING x.state, x.error_code, x.finished_at, (SELECT j.task FROM {schema}.job j WHERE j.id = x.id) AS task
  ), identity AS (
    DELETE FROM {schema}.job x WHERE x.id = ANY (p_id)
  ), carried AS (
    DELETE FROM {schema}.carry x WHERE x.id = ANY (p_id)
  ), history AS (
    DELETE FROM {schema}.attempt x WHERE x.id = ANY (p_id)
  ), tally AS (                         -- texts that fit into the key of `daily`, whatever the job had
    SELECT (e.finished_at AT TIME ZONE 'UTC')::date AS day, left(coalesce(e.task, '?'), 128) AS task, e.state,
           left(coalesce(e.error_code, ''), 64) AS code, count(*) AS n
      FROM ended e GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  )
  INSERT INTO {schema}.daily AS d (day, task, state, code, n)
  SELECT t.day, t.task, t.state, t.code, t.n FROM tally t
  ON CONFLICT (day, task, state, code) DO UPDATE SET n = d.n + excluded.n;
END $$;
