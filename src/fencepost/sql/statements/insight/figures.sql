-- figures: what runs, what is stale, who lives, what was put aside, and how large the identity table is.
-- gives:  one row (running, stale, workers alive, quarantined, bytes of the table job)
-- locks:  none
select (select count(*) from {schema}.running),
       (select count(*) from {schema}.lease r where r.lost),
       (select count(*) from {schema}.worker w
         where w.heartbeat_at between clock_timestamp() - interval '60 s' and clock_timestamp() + interval '60 s'),
       (select count(*) from {schema}.quarantine),
       pg_relation_size('{schema}.job')
