-- figures: what runs, what is stale, who lives, what was put aside, and how large the identity table is.
-- gives:  one row (running, stale, workers alive, quarantined, bytes of the table job)
-- locks:  none
select (select count(*) from {schema}.running),
       (select count(*) from {schema}.running r
         where coalesce(r.heartbeat_at, r.claimed_at) not between
               clock_timestamp() - least(greatest(r.ttl_s, 0), 315360000) * interval '1 s'
               and clock_timestamp() + interval '10 years'),
       (select count(*) from {schema}.worker w
         where w.heartbeat_at between clock_timestamp() - interval '60 s' and clock_timestamp() + interval '60 s'),
       (select count(*) from {schema}.quarantine),
       pg_relation_size('{schema}.job')
