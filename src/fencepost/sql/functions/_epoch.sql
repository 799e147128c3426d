-- _epoch: where a row enters the index of claims. It is not over before this transaction is.
-- locks:  the epoch, shared, until the end of the transaction (advisory); waits for rotate_v1 to commit
CREATE OR REPLACE FUNCTION {schema}._epoch() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint;
BEGIN
  LOOP
    v_epoch := (SELECT e.last_value FROM {schema}.ready_epoch e);
    PERFORM pg_advisory_xact_lock_shared('{schema}.ready'::regclass::oid::int, (v_epoch % 2147483648)::int);
    IF v_epoch > (SELECT o.last_value FROM {schema}.ready_over o) THEN
      RETURN v_epoch;
    END IF;
  END LOOP;
END $$;
