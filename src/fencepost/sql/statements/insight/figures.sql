-- figures: what runs, what is stale, who lives, what was put aside, and how large the identity table is.
-- gives:  one row (running, stale, workers alive, quarantined, bytes of the table job)
-- locks:  none
select (select count(*) from {schema}.running),
       (select count(*) from {schema}.running r
         where coalesce(r.heartbeat_at, r.claimed_at) + r.ttl_s * interval '1 s' < clock_timestamp()),
       (select count(*) from {schema}.worker w where w.heartbeat_at > clock_timestamp() - interval '60 s'),
       (select count(*) from {schema}.quarantine),
       pg_relation_size('{schema}.job')
