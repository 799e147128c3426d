-- resign: give the role up (functions/resign_v1.sql)
SELECT {schema}.resign_v1('leader', %(token)s::bigint)
