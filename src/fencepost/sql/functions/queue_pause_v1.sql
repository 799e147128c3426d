-- queue_pause_v1: pause or resume a queue, audited. A pause takes effect with the next claim.
-- gives:  paused | resumed | unchanged
CREATE OR REPLACE FUNCTION {schema}.queue_pause_v1(
  p_queue text, p_paused boolean, p_actor text, p_reason text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.queue AS q (name) VALUES (p_queue) ON CONFLICT (name) DO NOTHING;
  UPDATE {schema}.queue q SET paused = p_paused, paused_at = CASE WHEN p_paused THEN clock_timestamp() END
   WHERE q.name = p_queue AND q.paused <> p_paused;
  IF NOT FOUND THEN RETURN 'unchanged'; END IF;
  INSERT INTO {schema}.audit (actor, action, target, reason, became)
  VALUES (p_actor, CASE WHEN p_paused THEN 'pause' ELSE 'resume' END, p_queue, p_reason,
          CASE WHEN p_paused THEN 'paused' ELSE 'open' END);
  IF NOT p_paused THEN
    NOTIFY {schema};
  END IF;
  RETURN CASE WHEN p_paused THEN 'paused' ELSE 'resumed' END;
END $$;
