-- lead_v1: take or renew a leased role. The epoch rises with every change of hands.
-- gives:  whether p_token leads now, the epoch, and what was last found good of the server (evidence, SPEC C11): the
--         leader writes its own with each renewal, a successor reads it
-- locks:  the role's row, SKIP LOCKED: who does not get it does not lead
CREATE OR REPLACE FUNCTION {schema}.lead_v1(
  p_name text, p_token bigint, p_lease_s float8, p_started timestamptz, p_timeline int, p_good timestamptz,
  OUT leads boolean, OUT epoch bigint, OUT server_started_at timestamptz, OUT timeline int, OUT good_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_row {schema}.leader;
  v_taken boolean;
BEGIN
  leads := false;
  INSERT INTO {schema}.leader AS l (name, token, taken_at, renewed_at, expires_at)
  SELECT p_name, p_token, v_now, v_now, v_now + p_lease_s * interval '1 s'
   WHERE NOT EXISTS (SELECT FROM {schema}.leader x WHERE x.name = p_name)
  ON CONFLICT (name) DO NOTHING;
  SELECT * INTO v_row FROM {schema}.leader l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    epoch := 0;
    RETURN;
  END IF;
  epoch := v_row.epoch;
  server_started_at := v_row.server_started_at;
  timeline := v_row.timeline;
  good_at := v_row.good_at;
  IF v_row.token <> p_token AND v_row.expires_at > v_now THEN RETURN; END IF;
  v_taken := v_row.token <> p_token OR v_row.expires_at <= v_now;
  leads := true;
  epoch := v_row.epoch + v_taken::int;
  UPDATE {schema}.leader l
     SET token = p_token, epoch = lead_v1.epoch, renewed_at = v_now,
         expires_at = v_now + p_lease_s * interval '1 s',
         taken_at = CASE WHEN v_taken THEN v_now ELSE l.taken_at END,
         -- a successor first reads what its predecessor knew; it writes its own with its next renewal
         server_started_at = CASE WHEN v_taken THEN l.server_started_at
                                  ELSE coalesce(p_started, l.server_started_at) END,
         timeline = CASE WHEN v_taken THEN l.timeline ELSE coalesce(p_timeline, l.timeline) END,
         good_at = CASE WHEN v_taken THEN l.good_at ELSE coalesce(p_good, l.good_at) END
   WHERE l.name = p_name;
END $$;
