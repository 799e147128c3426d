-- wake_known: parked as unknown, known by now (functions/wake_known_v1.sql)
SELECT {schema}.wake_known_v1(%(limit)s::int)
