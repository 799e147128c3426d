-- indexes: those of the schema that can be used, and those that a cut-off CREATE INDEX CONCURRENTLY left invalid.
-- gives:  a row per index (name, valid)
-- locks:  none
select c.relname::text, i.indisvalid and i.indisready
  from pg_index i join pg_class c on c.oid = i.indexrelid
 where c.relnamespace = to_regnamespace('{schema}')
 order by c.relname
