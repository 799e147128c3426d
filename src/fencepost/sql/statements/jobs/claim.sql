-- claim: take runnable jobs (functions/claim_v1.sql).
-- edge:   queued -> running
-- fence:  makes it: (id, run_count, token)
-- gives:  a row per job, the columns of ClaimedJob; a row with id NULL counts those that were moved aside
-- locks:  rows of ready and gates, both skipping what others hold
--
-- What is left until finish_by is told in seconds: a worker's own clock may be any (SPEC C10).
--
-- Times are numbers, or brought into the years that Python has: one row with an infinite time must not spoil the batch
-- (SPEC C12).
select id, run_count, job_id, queue, task, version, payload, attempts, max_attempts, crashes, snoozes, generation,
       at_most_once, ttl_s, date_part('epoch', run_at), date_part('epoch', created_at),
       case when finish_by is not null
            then greatest(least(finish_by, '9999-12-30 00:00+00'), '0001-01-03 00:00+00') end,
       fair_key, checkpoint, meta, tags,
       case when finish_by is not null
            then extract(epoch from greatest(least(finish_by, '9999-12-30 00:00+00'), '0001-01-03 00:00+00')
                                    - clock_timestamp())::float8 end
  from {schema}.claim_v1(%(token)s::bigint, %(queues)s::text[], %(quotas)s::int[], %(max_bytes)s::bigint,
         %(ttl_s)s::float8, %(after)s::text[])
