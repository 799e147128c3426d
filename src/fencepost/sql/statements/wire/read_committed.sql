-- read_committed: make it the default of this session. On direct connections only: behind a pooler it would leak.
-- gives:  one row
-- locks:  none
select set_config('default_transaction_isolation', 'read committed', false)
