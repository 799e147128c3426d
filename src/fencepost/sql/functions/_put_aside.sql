-- _put_aside: note the ids that left a place and did not arrive; what remains of such a job is where the conflict was.
CREATE OR REPLACE FUNCTION {schema}._put_aside(p_place text, p_reason text, p_left bigint[], p_arrived bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.quarantine (id, place, reason)
  SELECT u.id, p_place, p_reason FROM unnest(p_left) AS u(id) WHERE u.id NOT IN (SELECT unnest(p_arrived));
END $$;
