-- show_runs: the runs of one job, oldest first; of a job with thousands the newest.
-- gives:  a row per run, the columns of RunView
-- locks:  none
select * from (
  select run_count, token, claimed_at, started_at, ended_at, last_beat_at, max_gap_s, how, spent, error_code, error, stats,
         refused
    from {schema}.runs where id = %(id)s::bigint order by run_count desc limit %(most)s::int) x
 order by run_count
