-- The second witness: every move of every job, written by triggers in the same transaction as the move itself.
-- {schema} is the library's schema, {log} ours. The order of n within one job is the order of its row locks.

DROP SCHEMA IF EXISTS {log} CASCADE;
CREATE SCHEMA {log};

CREATE TABLE {log}.moves (
  n     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  txid  bigint NOT NULL,
  at    timestamptz NOT NULL,
  place text NOT NULL,
  op    text NOT NULL,
  id    bigint,
  line  jsonb NOT NULL
);

CREATE FUNCTION {log}.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_line jsonb;
BEGIN
  v_line := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
  INSERT INTO {log}.moves (txid, at, place, op, id, line)
  VALUES (pg_catalog.txid_current(), pg_catalog.clock_timestamp(), TG_TABLE_NAME, lower(TG_OP), (v_line ->> 'id')::bigint,
          v_line - ARRAY['payload', 'stats', 'error', 'bytes', 'ttl_s', 'keep_ok_s', 'keep_bad_s', 'max_gap_s',
                         'fair_key', 'max_attempts', 'max_crashes', 'at_most_once', 'on_lost', 'progress', 'checkpoint']);
  RETURN NULL;
END $$;

CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.job FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.ready FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.delayed FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.parked FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.running FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.outcome FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.attempt FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.held FOR EACH ROW EXECUTE FUNCTION {log}.note();
CREATE TRIGGER torture AFTER INSERT OR UPDATE OR DELETE ON {schema}.quarantine FOR EACH ROW EXECUTE FUNCTION {log}.note();
