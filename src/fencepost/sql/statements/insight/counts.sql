-- counts: jobs by queue, state and label, of at most p_most rows of each place (of the ended: the newest).
-- gives:  a row per group (queue, state, label, jobs)
-- locks:  none
--
-- `offset 0` makes each ended job be looked up by its id: a join would read the whole identity table.
-- The labels are those of the view `jobs`, written for each place so that no row is joined to the places where it is not.
with waiting as (
  select r.id, r.queue, r.attempts, r.crashes, 'ready' as place, r.run_at
    from (select * from {schema}.ready limit %(most)s::int) r
  union all
  select d.id, d.queue, d.attempts, d.crashes, 'delayed', d.run_at
    from (select * from {schema}.delayed limit %(most)s::int) d
  union all
  select p.id, p.queue, p.attempts, p.crashes, 'parked', p.run_at
    from (select * from {schema}.parked limit %(most)s::int) p
), labelled as (
  select w.queue, 'queued' as state,
         case when w.crashes > 0
                   and (select a.how from {schema}.attempt a where a.id = w.id order by a.run_count desc limit 1) = 'stale'
                then 'recovered'
              when w.attempts > 0 then 'retrying'
              when w.place = 'delayed' and w.run_at > clock_timestamp() then 'scheduled'
              when w.place = 'parked' then 'parked'
              when q.paused then 'paused'
              else 'queued' end as label
    from waiting w left join {schema}.queue q on q.name = w.queue
  union all
  select r.queue, 'running', case when r.lost then 'lost' else 'running' end from {schema}.lease r
  union all
  select j.queue, o.state, o.state
    from (select id, state from {schema}.outcome order by id desc limit %(most)s::int) o
   cross join lateral (select j.queue from {schema}.job j where j.id = o.id offset 0) j
)
select queue, state, label, count(*) from labelled group by queue, state, label order by queue, state, label
