-- list_queued: jobs that wait, wherever and for whatever, newest first.
-- gives:  a row per job, the columns of JobRow
-- locks:  none
--
-- The place, the queue and the counters of the narrow rows are looked at first: what cannot fit costs no look into the view.
-- `offset 0` makes the view be looked into row by row: its labels read the clock, so it cannot be planned with the rest.
select j.id, j.job_id, j.task, j.version, j.queue, j.state, j.label, j.priority, j.attempts, j.run_count, j.last_error_code,
       left(j.last_error, 300), j.created_at, j.run_at, j.heartbeat_at, j.next_retry_at, j.finished_at, j.tags
  from ((select id, queue, attempts, crashes from {schema}.ready
          where %(label)s::text is null or %(label)s::text not in ('scheduled', 'parked') order by id desc)
        union all
        (select id, queue, attempts, crashes from {schema}.delayed
          where %(label)s::text is null or %(label)s::text <> 'parked' order by id desc)
        union all
        (select id, queue, attempts, crashes from {schema}.parked
          where %(label)s::text is null or %(label)s::text in ('parked', 'recovered', 'retrying') order by id desc)) x
 cross join lateral (
   select * from {schema}.jobs v
    where v.id = x.id
      and (%(queue)s::text is null or x.queue = %(queue)s::text)
      and (%(label)s::text is null or %(label)s::text not in ('recovered', 'retrying') or x.attempts > 0 or x.crashes > 0)
   offset 0) j
 where x.id < coalesce(%(before)s::bigint, 9223372036854775807)
   and (%(task)s::text is null or j.task = %(task)s::text)
   and (%(label)s::text is null or j.label = %(label)s::text)
   and (%(tag)s::text is null or j.tags @> array[%(tag)s::text])
 order by x.id desc limit %(limit)s::int
