-- register_v1: a worker process says that it is here and what it knows. Twice: the newer answer stays.
CREATE OR REPLACE FUNCTION {schema}.register_v1(
  p_token bigint, p_host text, p_pid int, p_tasks jsonb, p_queues jsonb DEFAULT '{}'
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.worker AS w (token, host, pid, tasks, queues)
  VALUES (p_token, p_host, p_pid, p_tasks, p_queues)
  ON CONFLICT (token) DO UPDATE
    SET tasks = excluded.tasks, queues = excluded.queues, heartbeat_at = clock_timestamp();
END $$;
