-- drop_index: the statement that takes away an index that a cut-off build left invalid. The server writes it, since a name
--         can be no parameter; it cannot run inside a function.
-- gives:  one row, one text
-- locks:  none
select format('DROP INDEX CONCURRENTLY IF EXISTS %%I.%%I', '{schema}', %(name)s::text)
