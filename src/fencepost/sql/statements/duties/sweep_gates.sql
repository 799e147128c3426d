-- sweep_gates: forget gates that say nothing (functions/gate_sweep_v1.sql)
SELECT {schema}.gate_sweep_v1(%(limit)s::int)
