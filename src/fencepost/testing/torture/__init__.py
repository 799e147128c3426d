"""``fencepost torture``: real workers under real faults, three witnesses, and a checker that knows nothing of the library.

    story      from start to verdict: ground, sink, crew, load, nemesis, record, checker, report
    ground     the database: servers of our own (a primary, and a standby when one is needed), or somebody's by its DSN
    crew       supervisors with their worker processes, each behind a door: a proxy that can be troubled
    load       the client, a process of its own; app: what the workers run; sink: where effects are counted
    nemesis    when which fault strikes; processes, networks, databases: the faults
    record     the log that triggers write inside the database, and its export
    checker    judges the folder of histories afterwards, with the standard library alone

Processes speak to each other through files of one folder only, one line of JSON for each event, written by one append:
what was written survives SIGKILL.
"""
