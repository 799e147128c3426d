-- show_job: the contract columns of one job.
-- gives:  one row, the columns of JobView without runs and audit; none for an unknown job_id
-- locks:  none
select id, job_id, task, version, queue, state, label, priority, attempts, run_count, crashes, snoozes, last_error_code,
       last_error, created_at, run_at, claimed_at, heartbeat_at, next_retry_at, cancel_at, finished_at, parked_for, worker,
       stale, payload, result, progress, checkpoint, unique_key, concurrency_key, tenant, start_by, finish_by, tags, meta,
       resubmits, manual, generation
  from {schema}.jobs where job_id = %(job_id)s::text
