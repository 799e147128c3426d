-- resign_v1: give the role up so that another takes over at once. Nothing happens to a role that somebody else has.
CREATE OR REPLACE FUNCTION {schema}.resign_v1(p_name text, p_token bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}.leader l SET expires_at = clock_timestamp() WHERE l.name = p_name AND l.token = p_token;
  RETURN FOUND;
END $$;
