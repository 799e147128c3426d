-- _fair_key: the tenant where the queue is fair, '' elsewhere.
CREATE OR REPLACE FUNCTION {schema}._fair_key(p_queue text, p_tenant text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN coalesce((SELECT p_tenant FROM {schema}.queue q WHERE q.name = p_queue AND q.fair), '');
END $$;
