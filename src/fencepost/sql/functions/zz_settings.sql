-- zz_settings: comes last; attaches to every public function what it must not inherit from a session, and takes rights
-- away.
--
-- Eight planner settings: the plans of these statements are known, and statistics of a table that is usually empty
-- mislead (a claim would read the whole backlog). lock_timeout everywhere but in enqueue (the caller's transaction, the
-- caller's patience). statement_timeout would do nothing here: its timer is armed before the call.
DO $do$
DECLARE
  f record;
  s text;
  v_own xid := pg_current_xact_id()::xid;
BEGIN
  FOR f IN SELECT p.oid::regprocedure AS sig, p.proname FROM pg_catalog.pg_proc p
            WHERE p.pronamespace = '{schema}'::regnamespace AND p.prokind = 'f' AND p.xmin = v_own LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f.sig);
    CONTINUE WHEN f.proname LIKE '\_%';                    -- internal: runs under its caller's settings
    FOREACH s IN ARRAY ARRAY[
      'search_path = pg_catalog, pg_temp', 'enable_indexscan = on', 'enable_nestloop = on', 'enable_seqscan = off',
      'enable_bitmapscan = off', 'enable_hashjoin = off', 'enable_mergejoin = off', 'jit = off',
      'plan_cache_mode = force_generic_plan', $q$lock_timeout = '1s'$q$]
    LOOP
      CONTINUE WHEN f.proname IN ('enqueue_v1', 'enqueue') AND s LIKE 'lock_timeout%';
      EXECUTE format('ALTER FUNCTION %s SET %s', f.sig, s);
    END LOOP;
  END LOOP;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'fencepost: the functions must be written in the transaction that attaches their settings, without '
      'savepoints' USING ERRCODE = '55000';
  END IF;
END $do$;
