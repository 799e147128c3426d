-- wrong_gates: key limits whose count is not what runs, or that have room while jobs are parked behind them
SELECT x.ckey
  FROM (SELECT g.ckey, g.used, g.lim,
               (SELECT count(*) FROM {schema}.running r WHERE r.ckey = g.ckey)
               + (SELECT count(*) FROM {schema}.slot_due s WHERE s.ckey = g.ckey) AS n,
               EXISTS (SELECT FROM {schema}.parked p WHERE p.ckey = g.ckey AND p.reason = 'key') AS waits
          FROM {schema}.gate g ORDER BY g.ckey LIMIT 10000) x
 WHERE x.used <> x.n OR (x.waits AND x.used < x.lim) LIMIT %(limit)s::int
