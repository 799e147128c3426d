-- backend: the process that serves this connection right now. Behind a pooler it is not the one that greeted us.
-- gives:  one row, one number
-- locks:  none
select pg_backend_pid()
