-- hello: the server's own word for its process, and how transactions start unless they say otherwise.
-- gives:  one row (pid, isolation)
-- locks:  none
select pg_backend_pid(), current_setting('default_transaction_isolation')
