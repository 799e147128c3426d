-- cancel: a queued job at once, a running one by request (functions/cancel_v1.sql)
SELECT {schema}.cancel_v1(%(job_id)s::text, %(actor)s::text, %(reason)s::text)
