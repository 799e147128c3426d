-- rescue_process: what a dead process ran (functions/rescue_process_v1.sql)
SELECT id, answer, state
  FROM {schema}.rescue_process_v1(%(token)s::bigint, %(started)s::bigint[], %(overdue)s::bigint[],
         %(interrupted)s::bigint[], %(limit)s::int)
