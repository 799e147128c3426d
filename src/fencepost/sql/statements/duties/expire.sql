-- expire: deadlines of waiting jobs (functions/expire_v1.sql)
SELECT {schema}.expire_v1(%(limit)s::int)
