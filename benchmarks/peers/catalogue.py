"""The peers: versions, settings, and what each does not do for its speed. Data, and nothing else."""

from __future__ import annotations

from peers.facts import Peer

_ROWS = "the peer's own tables: no row is left that waits or runs"

PEERS: tuple[Peer, ...] = (
    Peer(
        name="pgqueuer",
        title="PgQueuer",
        adapter="pgqueuer.py",
        packages=("pgqueuer[asyncpg,cli]==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
        best={"batch_size": 1000, "uvloop": True},
        settings_from="its options: a big batch and uvloop; asyncpg and its autovacuum preset are on in both modes",
        bulk="enqueue with lists, 10,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM pgqueuer WHERE status IN ('queued', 'picked')",
        gate=("pgqueuer",),
        not_done=(
            "the row is deleted at the end; a log table keeps id and state, not the payload",
            "no fence: an outcome is written by the job's id",
            "the payload is bytes; types are not checked",
        ),
    ),
    Peer(
        name="procrastinate",
        title="Procrastinate",
        adapter="procrastinate.py",
        packages=("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
        best={"concurrency": 10, "pool": 20},
        default={"pool": 10},
        settings_from="its options: 10 at once (50 were slower in an earlier trial), where its default is 1",
        bulk="batch_defer_async, 1,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
        gate=("procrastinate_jobs",),
        not_done=("no fence: a job is finished by its id", "arguments are not checked against the signature"),
    ),
    Peer(
        name="celery",
        title="Celery on Redis",
        adapter="celery.py",
        packages=("celery[redis]==5.7.0",),
        server="redis",
        best={"pool": "solo", "prefetch": 64, "quiet": True},
        default={"pool": "prefork", "prefetch": 4, "quiet": False},
        settings_from="its options: solo pool, bigger prefetch, no gossip, mingle or heartbeat; one child in both modes",
        bulk="none: a loop of apply_async on one connection",
        evidence="the handler's own count: a job leaves the broker before it runs",
        not_done=(
            "early acknowledgement: a job that a dying worker held is lost",
            "results are ignored: no outcome, no history, no row to look at",
            "Redis syncs its file once a second, not at every job",
            "not in the transaction of the data that the job is about",
        ),
        bulk_at_most=4_000,
    ),
    Peer(
        name="graphile-worker",
        title="Graphile Worker",
        adapter="graphile.mjs",
        packages=("graphile-worker@0.18.0", "node@22"),
        tool="npm",
        best={
            "concurrentJobs": 24,
            "maxPoolSize": 25,
            "localQueue": {"size": 500},
            "completeJobBatchDelay": 0,
            "failJobBatchDelay": 0,
        },
        settings_from="the preset of its performance page",
        bulk="addJobs, 10,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM graphile_worker._private_jobs",
        gate=("graphile_worker._private_jobs",),
        not_done=(
            "the row is deleted at the end: no history, no outcome",
            "no lease that is renewed: a lost worker's jobs wait four hours",
        ),
    ),
    Peer(
        name="pg-boss",
        title="pg-boss",
        adapter="pgboss.mjs",
        packages=("pg-boss@12.38.0", "node@22"),
        tool="npm",
        best={
            "useListenNotify": True,
            "work": {"batchSize": 5000, "burstWhenBatchFull": True, "pollingIntervalSeconds": 0.5},
        },
        settings_from="its options: a big batch, the next fetched at once after a full one, the least poll, LISTEN on",
        bulk="insert, 10,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state IN ('created', 'retry', 'active')",
        gate=("pgboss.job",),
        not_done=(
            "a whole batch goes into one call of the handler and ends as one: no outcome of its own for each job",
            "by default one job is fetched every two seconds",
        ),
    ),
    Peer(
        name="oban",
        title="Oban for Python",
        adapter="oban.py",
        packages=("oban==0.7.0", "psycopg[binary]==3.3.9"),
        python=(3, 12),
        best={"limit": 100, "pool_min_size": 5, "pool_max_size": 20},
        default={"limit": 10},
        settings_from="its options: a bigger limit of the queue and a bigger pool",
        bulk="enqueue_many, 10,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM oban_jobs WHERE state IN ('available', 'executing')",
        gate=("oban_jobs",),
        not_done=(
            "a lost job is known by its age alone: one that runs for longer than five minutes is started again",
            "arguments are not checked against a signature",
        ),
    ),
    Peer(
        name="awa",
        title="Awa",
        adapter="awa.py",
        packages=("awa-pg==0.6.9",),
        best={"max_workers": 1000, "max_connections": 20},
        default={"max_workers": 10},
        settings_from="its options: many workers, twice the connections; batch and claimers are its defaults",
        bulk="enqueue_many_copy, 10,000 jobs a call",
        evidence=_ROWS,
        left="SELECT count(*) FROM awa.jobs WHERE state IN ('available', 'running')",
        gate=("awa.ready_entries",),
        not_done=(
            "finished jobs are counted and their rows go with the turn of a ring: 200 had none left after 1.5 s",
        ),
    ),
)

ABSENT: dict[str, str] = {
    "oban-elixir": "its package comes from Hex only, which could not be reached where this was written, so that no adapter "
    "could be tried; Oban for Python, by the same authors and on the same tables, stands in for it",
}
"""Peers that have no adapter, and why."""
