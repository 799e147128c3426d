-- resolve: a verdict about a job in doubt (functions/resolve_v1.sql)
SELECT {schema}.resolve_v1(%(job_id)s::text, %(verdict)s::text, %(actor)s::text, %(reason)s::text, %(result)s::jsonb)
