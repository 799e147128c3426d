-- unregister: a process has ended (functions/unregister_v1.sql)
SELECT {schema}.unregister_v1(%(token)s::bigint)
