-- discard: remove an ended job with its history (functions/discard_v1.sql)
SELECT {schema}.discard_v1(%(job_id)s::text, %(actor)s::text, %(reason)s::text)
