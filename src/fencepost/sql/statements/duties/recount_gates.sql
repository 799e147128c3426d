-- recount_gates: count again and wake what waits (functions/gate_recount_v1.sql)
SELECT {schema}.gate_recount_v1(%(ckeys)s::text[])
