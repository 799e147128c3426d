-- show_audit: who did what to one job, oldest first; of thousands of acts the newest.
-- gives:  a row per act, the columns of AuditView
-- locks:  none
select * from (
  select n, at, actor, action, target, reason, was, became
    from {schema}.audit where id = %(id)s::bigint order by n desc limit %(most)s::int) x
 order by n
