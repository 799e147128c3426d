-- checkpoint: what the next run gets back (functions/checkpoint_v1.sql)
SELECT {schema}.checkpoint_v1(%(token)s::bigint, %(id)s::bigint, %(run_count)s::int, %(data)s::jsonb)
