-- switch_queue: pause or resume, audited; no row: nothing changed (functions/queue_pause_v1.sql)
SELECT x.answer FROM {schema}.queue_pause_v1(%(queue)s::text, %(paused)s::boolean, %(actor)s::text, %(reason)s::text)
         AS x(answer)
 WHERE x.answer <> 'unchanged'
