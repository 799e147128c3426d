-- has_database: is fencepost's own database there?
-- gives:        one row: yes or no
select exists (select 1 from pg_catalog.pg_database where datname = 'fencepost')
