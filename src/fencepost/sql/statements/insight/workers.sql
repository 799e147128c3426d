-- workers: every process that the database knows; alive: it has beaten within a minute.
-- gives:  a row per process, the columns of WorkerView
-- locks:  none
select w.token, w.host, w.pid, w.queues, w.tasks, w.started_at, w.heartbeat_at,
       w.heartbeat_at between clock_timestamp() - interval '60 s' and clock_timestamp() + interval '60 s', coalesce(r.n, 0)
  from {schema}.worker w
  left join (select token, count(*) as n from {schema}.running group by token) r on r.token = w.token
 order by w.started_at, w.token
