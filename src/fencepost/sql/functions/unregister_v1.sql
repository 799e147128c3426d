-- unregister_v1: a worker process has ended. Its leases are no concern of this row (SPEC C10).
CREATE OR REPLACE FUNCTION {schema}.unregister_v1(p_token bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM {schema}.worker w WHERE w.token = p_token;
END $$;
