-- applied: the files that have been applied.
-- gives:  a row per file (name, kind, breaking, checksum, program)
-- locks:  none
select name, kind, breaking, checksum, program from {schema}.migration order by name
