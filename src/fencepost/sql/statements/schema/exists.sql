-- exists: whether the schema and its record of migrations are there.
-- gives:  one row (schema, record)
-- locks:  none
select to_regnamespace('{schema}') is not null, to_regclass('{schema}.migration') is not null
