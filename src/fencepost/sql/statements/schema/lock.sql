-- lock: one migrator at a time; asked again and again. A session that *waits* in pg_advisory_lock holds a snapshot, which
--         the other's CREATE INDEX CONCURRENTLY waits for in turn: a deadlock (review B11).
-- gives:  one row: whether we have it
-- locks:  the session's advisory lock, so a direct connection is needed; it ends with the session
select pg_try_advisory_lock(hashtextextended('fencepost.migrate:{schema}', 0))
