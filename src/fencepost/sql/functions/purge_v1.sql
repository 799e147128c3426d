-- purge_v1: remove one batch whose time is over; daily counts by task, state and code stay (SPEC L4).
-- edge:   succeeded, failed, cancelled, skipped -> (gone)
-- gives:  how many; call again until fewer than p_limit
-- locks:  outcome rows with SKIP LOCKED
--
-- purge_at already contains the dedup window, and is NULL in doubt: neither can be purged by mistake. A row that cannot
-- go (a user's foreign key points at it) is put off by a day and named in quarantine; it stops no other (SPEC C12).
CREATE OR REPLACE FUNCTION {schema}.purge_v1(p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint[];
  v_n int := 0;
BEGIN
  v_id := ARRAY(SELECT o.id FROM {schema}.outcome o WHERE o.purge_at <= clock_timestamp()
                 ORDER BY o.purge_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  IF v_id = '{}' THEN RETURN 0; END IF;
  BEGIN
    PERFORM {schema}._purge(v_id);
    RETURN cardinality(v_id);
  EXCEPTION WHEN integrity_constraint_violation THEN
    NULL;
  END;
  FOR k IN 1 .. cardinality(v_id) LOOP
    BEGIN
      PERFORM {schema}._purge(v_id[k:k]);
      v_n := v_n + 1;
    EXCEPTION WHEN integrity_constraint_violation THEN
      UPDATE {schema}.outcome o SET purge_at = clock_timestamp() + interval '1 day' WHERE o.id = v_id[k];
      INSERT INTO {schema}.quarantine (id, place, reason) VALUES (v_id[k], 'outcome', 'purge: ' || SQLERRM);
    END;
  END LOOP;
  RETURN v_n;
END $$;
