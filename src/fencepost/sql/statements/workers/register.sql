-- register: a process is here (functions/register_v1.sql)
SELECT {schema}.register_v1(%(token)s::bigint, %(host)s::text, %(pid)s::int, %(tasks)s::jsonb, %(queues)s::jsonb)
