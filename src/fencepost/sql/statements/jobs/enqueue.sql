-- enqueue: add jobs in the caller's transaction (functions/enqueue_v1.sql).
-- edge:   nothing or ended -> queued
-- gives:  an answer per job, in order
-- locks:  a job_id or unique key that another open transaction has inserted
-- Arrays travel in binary: with array_nulls = off, a setting of anybody's session, the text of one has no NULL.
select ord, job_id, id, answer, holder, differs
  from {schema}.enqueue_v1(%(job_id)b::text[], %(task)b::text[], %(payload)b::text[], %(queue)b::text[],
         %(priority)b::int[], %(run_at)b::timestamptz[], %(unique_key)b::text[], %(ckey)b::text[], %(opts)b::jsonb[],
         %(on_terminal)s::text, %(notify)s::boolean)
 order by ord
