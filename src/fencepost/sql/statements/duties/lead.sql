-- lead: take or renew the leader's role (functions/lead_v1.sql)
SELECT leads, epoch, server_started_at, timeline, good_at FROM {schema}.lead_v1('leader', %(token)s::bigint, %(lease)s::float8,
         %(started_at)s::timestamptz, %(timeline)s::int, %(good_at)s::timestamptz)
