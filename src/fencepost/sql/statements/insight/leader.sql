-- leader: who holds the leader's lease, by the database's clock.
-- gives:  one row, the columns of LeaderView; none before the first leader
-- locks:  none
select l.token, l.epoch, l.expires_at > clock_timestamp(), l.taken_at, l.renewed_at, w.host, w.pid
  from {schema}.leader l left join {schema}.worker w on w.token = l.token
 where l.name = 'leader'
