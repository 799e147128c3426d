-- publish_tasks: task defaults and policy (functions/publish_tasks_v1.sql)
SELECT {schema}.publish_tasks_v1(%(tasks)s::jsonb)
