-- wrong_gates: key limits whose count is not what runs, or that have room while jobs are parked behind them.
-- gives:  a row per key
-- locks:  none
select x.ckey
  from (select g.ckey, g.used, g.lim,
               (select count(*) from {schema}.running r where r.ckey = g.ckey)
               + (select count(*) from {schema}.slot_due s where s.ckey = g.ckey) as n,
               exists (select from {schema}.parked p where p.ckey = g.ckey and p.reason = 'key') as waits
          from {schema}.gate g order by g.ckey limit 10000) x
 where x.used <> x.n or (x.waits and x.used < x.lim)
 limit %(limit)s::int
