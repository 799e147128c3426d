-- in_flight: of these leases, those whose row another transaction has locked, perhaps that of our own lost connection.
-- fence:  (id, run_count, token)
-- gives:  a row per locked lease: its id
-- locks:  the others' rows for a moment, skipping what is locked
--
-- Never inside a user's transaction: its own commit is made not to wait for the disk or a standby. It changes nothing,
-- and when commits wait for a standby it is asked again and again; each would wait as well, with a connection of its own.
with hasty as materialized (
  select set_config('synchronous_commit', 'off', true)
), lease as (
  select r.id
    from unnest(%(id)s::bigint[], %(run_count)s::int[]) as u(id, run_count)
    join {schema}.running r on r.id = u.id and r.run_count = u.run_count and r.token = %(token)s::bigint
), free as materialized (
  select r.id from {schema}.running r, hasty where r.id in (select id from lease) for no key update of r skip locked
)
select id from lease where id not in (select id from free)
