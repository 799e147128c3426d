-- functions: those that the schema has, whoever made them.
-- gives:  a row per name
-- locks:  none
select distinct proname::text from pg_proc where pronamespace = to_regnamespace('{schema}')
