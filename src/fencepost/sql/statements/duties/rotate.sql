-- rotate: leave consumed rows behind (functions/rotate_v1.sql)
SELECT {schema}.rotate_v1(%(after)s::bigint, %(base)s::bigint, %(sweep)s::int)
