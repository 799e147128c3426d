-- facts: what fencepost's guarantees rest on, asked of the server rather than believed of its version.
-- gives:  one row (version number, in recovery, read-only, encoding, has PL/pgSQL, extensions)
-- locks:  none
select current_setting('server_version_num')::int,
       pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean,
       current_setting('server_encoding'),
       exists (select from pg_language where lanname = 'plpgsql'),
       array(select extname::text from pg_extension order by extname)
