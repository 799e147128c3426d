-- record: a file has been applied, in the transaction that applied it. A function's file may be applied again.
-- locks:  the file's row
insert into {schema}.migration (name, kind, phase, breaking, checksum, program)
values (%(name)s, %(kind)s, %(phase)s, %(breaking)s, %(checksum)s, %(program)s)
on conflict (name) do update
  set checksum = excluded.checksum, program = excluded.program, applied_at = clock_timestamp()
