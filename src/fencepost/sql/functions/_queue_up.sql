-- _queue_up: put a job that is in no place into ready or delayed, by what its row says; attempts start at 0.
CREATE OR REPLACE FUNCTION {schema}._queue_up(p_id bigint, p_run_count int, p_now timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  j record;
BEGIN
  SELECT job.run_at, pg_column_size(job.payload) AS bytes, job.priority, job.unique_key IS NOT NULL AS keyed, job.queue,
         {schema}._fair_key(job.queue, job.tenant) AS fair_key, job.ckey, job.start_by, job.finish_by
    INTO j FROM {schema}.job WHERE job.id = p_id;
  IF j.run_at <= p_now THEN
    INSERT INTO {schema}.ready (id, run_at, run_count, bytes, priority, keyed, queue, fair_key, ckey, start_by,
                                finish_by, epoch)
    VALUES (p_id, j.run_at, p_run_count, j.bytes, j.priority, j.keyed, j.queue, j.fair_key, j.ckey, j.start_by,
            j.finish_by, {schema}._epoch());
  ELSE
    INSERT INTO {schema}.delayed (id, run_at, run_count, bytes, priority, keyed, queue, fair_key, ckey, start_by,
                                  finish_by)
    VALUES (p_id, j.run_at, p_run_count, j.bytes, j.priority, j.keyed, j.queue, j.fair_key, j.ckey, j.start_by,
            j.finish_by);
  END IF;
END $$;
