-- purge: one batch of retention (functions/purge_v1.sql)
SELECT {schema}.purge_v1(%(limit)s::int)
