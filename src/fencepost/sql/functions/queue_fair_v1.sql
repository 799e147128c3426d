-- queue_fair_v1: make a queue fair between tenants, or plain again. fair_key is a fact of the row (the index needs it),
-- so switching rewrites the waiting rows, in one transaction.
-- locks:  the waiting rows of the queue
CREATE OR REPLACE FUNCTION {schema}.queue_fair_v1(p_queue text, p_fair boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.queue AS q (name, fair) VALUES (p_queue, p_fair)
  ON CONFLICT (name) DO UPDATE SET fair = excluded.fair;
  UPDATE {schema}.ready x SET fair_key = CASE WHEN p_fair THEN coalesce(j.tenant, '') ELSE '' END
    FROM {schema}.job j WHERE j.id = x.id AND x.queue = p_queue;
  UPDATE {schema}.delayed x SET fair_key = CASE WHEN p_fair THEN coalesce(j.tenant, '') ELSE '' END
    FROM {schema}.job j WHERE j.id = x.id AND x.queue = p_queue;
  UPDATE {schema}.parked x SET fair_key = CASE WHEN p_fair THEN coalesce(j.tenant, '') ELSE '' END
    FROM {schema}.job j WHERE j.id = x.id AND x.queue = p_queue;
END $$;
