-- rotate_v1: leave consumed rows behind, whether they can be vacuumed or not.
-- gives:  the base for the next call: dead rows of `ready` at the last advance
-- locks:  an epoch that may be over, exclusively, if nobody has it (advisory)
--
-- A claim reads the index of `ready` from the left edge of its epoch, past all rows that were consumed since the last VACUUM,
-- and an old snapshot keeps VACUUM from removing any. So rows enter at a new epoch when most of the old one is consumed:
-- claims read both until the old one is empty and no open transaction may still add to it; then it is over, and nobody
-- reads its dead rows again. At most two are open, because a claim locks its quota in each.
--
-- Two leaders at once do no harm: epochs only rise, and one that is over has no row and gets none.
CREATE OR REPLACE FUNCTION {schema}.rotate_v1(p_after bigint, p_base bigint, p_sweep int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_ready regclass := '{schema}.ready';
  v_dead bigint := pg_stat_get_dead_tuples(v_ready);
  v_over bigint;
  v_last bigint;
BEGIN
  SELECT o.last_value, e.last_value INTO v_over, v_last FROM {schema}.ready_over o, {schema}.ready_epoch e;
  WHILE v_over + 1 < v_last LOOP
    EXIT WHEN NOT pg_try_advisory_xact_lock(v_ready::oid::int, ((v_over + 1) % 2147483648)::int);
    EXIT WHEN EXISTS (SELECT FROM {schema}.ready r WHERE r.epoch = v_over + 1);
    v_over := v_over + 1;
    PERFORM setval('{schema}.ready_over', v_over);
  END LOOP;
  -- breakpoint: rotate.closed
  p_base := least(p_base, v_dead);
  IF v_over + 1 = v_last AND v_dead - p_base >= greatest(p_after, 2 * pg_stat_get_live_tuples(v_ready)) THEN
    PERFORM nextval('{schema}.ready_epoch');
    p_base := v_dead;
  END IF;
  -- rows of an epoch that is not open: written by hand, or restored from a backup. Not while so many dead ones lie there.
  IF p_sweep > 0 AND v_dead < 1000000 THEN
    UPDATE {schema}.ready r SET epoch = {schema}._epoch()
     WHERE r.id = ANY (ARRAY(SELECT x.id FROM {schema}.ready x WHERE x.epoch <= v_over
                              ORDER BY x.epoch LIMIT p_sweep FOR UPDATE SKIP LOCKED));
    UPDATE {schema}.ready r SET epoch = {schema}._epoch()
     WHERE r.id = ANY (ARRAY(SELECT x.id FROM {schema}.ready x
                              WHERE x.epoch > (SELECT e.last_value FROM {schema}.ready_epoch e)
                              ORDER BY x.epoch LIMIT p_sweep FOR UPDATE SKIP LOCKED));
  END IF;
  RETURN p_base;
END $$;
