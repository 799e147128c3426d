-- is_registered: whether a process is known
-- gives:  one row if it is, none if not
-- locks:  none
SELECT true FROM {schema}.worker w WHERE w.token = %(token)s::bigint
