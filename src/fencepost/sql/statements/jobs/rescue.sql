-- rescue: the reaper's batch (functions/rescue_v1.sql)
SELECT id, answer, state FROM {schema}.rescue_v1(%(limit)s::int, %(grace_s)s::float8, %(seen_at)s::timestamptz)
