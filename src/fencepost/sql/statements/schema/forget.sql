-- forget: records of function files that this program no longer has; the functions themselves go by a contract migration.
-- locks:  the files' rows
delete from {schema}.migration where kind = 'function' and name <> all (%(names)s::text[])
