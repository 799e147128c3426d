-- vacuum_leader: reclaim its dead rows.
-- utility: cannot run in a transaction, nor be prepared
-- locks:  SHARE UPDATE EXCLUSIVE if it is free, else nothing happens; blocks no reader and no writer
vacuum (index_cleanup on, skip_locked) {schema}.leader
