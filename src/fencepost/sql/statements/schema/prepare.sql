-- prepare: the schema, and the record of what was applied to it.
-- utility: several statements; safe to repeat. A schema that somebody made for us needs no right to make one.
-- locks:  none that anybody waits for
do $$
begin
  if to_regnamespace('{schema}') is null then
    create schema {schema};
  end if;
end $$;
create table if not exists {schema}.migration (
  name       text primary key,
  kind       text not null check (kind in ('migration', 'function')),
  phase      text not null check (phase in ('expand', 'contract', 'repeat')),
  breaking   boolean not null,
  checksum   text not null,
  program    text not null,
  applied_at timestamptz not null default clock_timestamp()
)
