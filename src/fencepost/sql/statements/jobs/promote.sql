-- promote: what is due, and slots that users' transactions gave back (functions/promote_v1.sql)
SELECT {schema}.promote_v1(%(limit)s::int)
