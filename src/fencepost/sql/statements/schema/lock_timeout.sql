-- lock_timeout: how long the next statements wait for a lock; whoever comes after a waiter waits behind it.
-- gives:  one row
-- locks:  none
select set_config('lock_timeout', %(text)s::text, %(local)s::boolean)
