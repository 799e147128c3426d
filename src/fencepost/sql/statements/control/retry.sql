-- retry: an operator runs an ended job again (functions/resubmit_v1.sql)
SELECT answer, holder FROM {schema}.resubmit_v1(%(job_id)s::text, %(actor)s::text, %(reason)s::text)
