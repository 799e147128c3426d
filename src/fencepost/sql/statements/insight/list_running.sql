-- list_running: jobs that run, newest first.
-- gives:  a row per job, the columns of JobRow
-- locks:  none
--
-- `offset 0` makes the view be looked into row by row: its labels read the clock, so it cannot be planned with the rest.
select j.id, j.job_id, j.task, j.version, j.queue, j.state, j.label, j.priority, j.attempts, j.run_count, j.last_error_code,
       left(j.last_error, 300), j.created_at, j.run_at, j.heartbeat_at, j.next_retry_at, j.finished_at, j.tags
  from {schema}.lease x
 cross join lateral (
   select * from {schema}.jobs v
    where v.id = x.id
      and (%(queue)s::text is null or x.queue = %(queue)s::text)
      and (%(label)s::text is distinct from 'lost' or x.lost)
   offset 0) j
 where x.id < coalesce(%(before)s::bigint, 9223372036854775807)
   and (%(task)s::text is null or j.task = %(task)s::text)
   and (%(label)s::text is null or j.label = %(label)s::text)
   and (%(tag)s::text is null or j.tags @> array[%(tag)s::text])
 order by x.id desc limit %(limit)s::int
