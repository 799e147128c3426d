-- enqueue: add jobs in the caller's transaction (functions/enqueue_v1.sql).
-- edge:   nothing or ended -> queued
-- gives:  an answer per job, in order
-- locks:  a job_id or unique key that another open transaction has inserted
select ord, job_id, id, answer, holder, differs
  from {schema}.enqueue_v1(%(job_id)s::text[], %(task)s::text[], %(payload)s::text[], %(queue)s::text[],
         %(priority)s::int[], %(run_at)s::timestamptz[], %(unique_key)s::text[], %(ckey)s::text[], %(opts)s::jsonb[],
         %(on_terminal)s::text, %(notify)s::boolean)
 order by ord
