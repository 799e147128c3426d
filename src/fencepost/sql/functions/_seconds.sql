-- _seconds: a duration that a row holds, within 0 to ten years (domain/limits.py); NaN and infinity fall to the upper
-- bound. A duration at the edge of its type is an error of the arithmetic, and stops the scan or the batch that meets it
-- (SPEC C12). SQL, so that it is inlined.
CREATE OR REPLACE FUNCTION {schema}._seconds(p_s float8) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
  SELECT interval '1 s' * least(greatest(p_s, 0), 315360000)
$$;
