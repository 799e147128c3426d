-- queues: every queue that is configured, published, or waited or run in.
-- gives:  a row per queue, the columns of QueueView. Counts stop at p_most rows a place; `capped` says so
-- locks:  none
--
-- An age is within the years that there are: one row with an infinite time must not spoil the answer (SPEC C12).
-- The order of each count is the index's: without it, one large queue is read whole to count each small one.
-- `step` walks the claim's index from group to group (epoch, queue, tenant, priority), so that a queue's name and its oldest due
-- job cost a few reads whatever the backlog.
with recursive line as (
  select o.last_value + 1 as first, e.last_value as last from {schema}.ready_over o, {schema}.ready_epoch e
),
step as (
  (select r.epoch, r.queue, r.fair_key, r.priority, r.run_at from {schema}.ready r
    where r.epoch >= (select first from line)
    order by r.epoch, r.queue, r.fair_key, r.priority desc, r.run_at, r.id limit 1)
  union all
  select n.* from step s cross join lateral (
    (select r.epoch, r.queue, r.fair_key, r.priority, r.run_at from {schema}.ready r
      where r.epoch = s.epoch and r.queue = s.queue and r.fair_key = s.fair_key and r.priority < s.priority
      order by r.priority desc, r.run_at, r.id limit 1)
    union all
    (select r.epoch, r.queue, r.fair_key, r.priority, r.run_at from {schema}.ready r
      where r.epoch = s.epoch and r.queue = s.queue and r.fair_key > s.fair_key
      order by r.fair_key, r.priority desc, r.run_at, r.id limit 1)
    union all
    (select r.epoch, r.queue, r.fair_key, r.priority, r.run_at from {schema}.ready r
      where r.epoch = s.epoch and r.queue > s.queue
      order by r.queue, r.fair_key, r.priority desc, r.run_at, r.id limit 1)
    union all
    (select r.epoch, r.queue, r.fair_key, r.priority, r.run_at from {schema}.ready r
      where r.epoch > s.epoch
      order by r.epoch, r.queue, r.fair_key, r.priority desc, r.run_at, r.id limit 1)
    limit 1) n
),
due as (select queue, min(run_at) as run_at from (select * from step limit %(groups)s::int) s group by queue),
later as (select queue, count(*) as n from (select queue from {schema}.delayed limit %(most)s::int) d group by queue),
aside as (select queue, count(*) as n from (select queue from {schema}.parked limit %(most)s::int) p group by queue),
busy as (select queue, count(*) as n from {schema}.running group by queue),
names as (
  select name from {schema}.queue union select queue from {schema}.task union select queue from due
  union select queue from later union select queue from aside union select queue from busy
)
select n.name, coalesce(q.paused, false), coalesce(q.fair, false), q.paused_at, a.actor, a.reason,
       w.n, coalesce(later.n, 0), coalesce(aside.n, 0), coalesce(busy.n, 0),
       case when due.run_at is not null
            then extract(epoch from statement_timestamp()
                           - greatest(least(due.run_at, statement_timestamp()), '0001-01-03 00:00+00'))::float8 end,
       w.n >= %(most)s::int or (select sum(n) >= %(most)s::int from later) is true
         or (select sum(n) >= %(most)s::int from aside) is true
  from names n
  left join {schema}.queue q on q.name = n.name
  left join due on due.queue = n.name
  left join later on later.queue = n.name
  left join aside on aside.queue = n.name
  left join busy on busy.queue = n.name
 cross join lateral (
   select count(*) as n
     from (select from line cross join generate_series(line.first, line.last) as e(epoch)
            cross join lateral (
              select from {schema}.ready r where r.epoch = e.epoch and r.queue = n.name
               order by r.epoch, r.queue, r.fair_key, r.priority desc, r.run_at, r.id limit %(most)s::int) x
            limit %(most)s::int) c) w
  left join lateral (
   select x.actor, x.reason from {schema}.audit x
    where x.action = 'pause' and x.target = n.name order by x.n desc limit 1) a on q.paused
 order by n.name
