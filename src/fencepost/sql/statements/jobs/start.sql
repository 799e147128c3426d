-- start: mark bodies as started before they run (functions/start_v1.sql)
SELECT id, answer FROM {schema}.start_v1(%(token)s::bigint, %(id)s::bigint[], %(run_count)s::int[])
