"""A real Slurm on 127.0.0.1: daemons in a temporary folder, with nodes whose GPUs are counts without devices.

It needs Debian's packages slurmctld, slurmd, slurm-client, slurmdbd, munge and mariadb-server, and the rights of root.
Every process that is started carries `MARK` in its environment, so that all of them can be found and ended by id.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gpu_cluster_gym.traces.slurm import EXPORT

PROGRAMS = (
    "slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "mariadb-install-db",
    "mariadb", "prlimit", "sbatch", "sacct", "sacctmgr", "scancel", "scontrol", "sinfo", "squeue",
)  # fmt: skip
MARK = "GPU_CLUSTER_GYM_SLURM"
"""Environment variable of every process, whose value is the folder."""
PATIENCE_S = 30.0
"""Longest wait for a daemon to answer, s."""
GRACE_S = 10.0
"""Longest wait for processes to end before they are killed, s."""
MAX_FILES = 4096
"""Limit of open files: Slurm closes as many as there may be at each fork, which takes seconds for a billion."""
FIRST_PORT, LAST_PORT = 21_000, 29_000
MINUTE = 60.0
SCHEDULER_PARAMETERS = "sched_min_interval=1,batch_sched_delay=0,sched_interval=1,default_queue_depth=10000"
BACKFILL_PARAMETERS = (
    "bf_interval=1,bf_resolution=1,bf_job_part_count_reserve=1,bf_max_job_test=10000,bf_window=1440"
)
"""One reservation, for the head of the queue, is EASY backfilling; a cycle begins every second."""
CONF = """\
ClusterName=referee
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
LogTimeFormat=iso8601_ms
SlurmctldDebug=debug2
DebugFlags=Backfill
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/{scheduler}
SchedulerParameters={parameters}
PriorityType=priority/basic
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={database_port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=3600
MessageTimeout=60
MaxJobCount=100000
MinJobAge=36000
KillWait=1
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] CPUs={cpus} Gres=gpu:{gpus}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
GRES = "NodeName=n[0-{last}] Name=gpu File={folder}/gpu[0-{last_gpu}]\n"
"""Slurm wants a file for each GPU, of which it checks only that there is one."""
DATABASE = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
SCRIPT = """\
#!/bin/bash
echo $EPOCHREALTIME > {folder}/began/$SLURM_JOB_ID
exec sleep {seconds:.3f}
"""


class Submission(NamedTuple):
    """A job to submit.

    at_s: time after the beginning. gpus: those of one node, or of whole nodes. run_s: its run time. limit_min: its time
    limit, in minutes as Slurm takes them.
    """

    at_s: float
    gpus: int
    run_s: float
    limit_min: int


def missing() -> str:
    """Return why no Slurm can be started here; empty where it can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if absent := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
        return (
            f"there is no {', '.join(absent)}: install Debian's slurmctld, slurmd, slurm-client, slurmdbd, munge and "
            "mariadb-server"
        )
    return "" if os.geteuid() == 0 else "slurmd runs as root only"


class LocalSlurm:
    """A Slurm that runs between `with` and its end.

    scheduler: `builtin`, which is strict FIFO, or `backfill`.
    RuntimeError where a daemon does not come up, with the end of its log.
    """

    def __init__(self, folder: Path, scheduler: str, *, nodes: int, gpus: int) -> None:
        self.folder, self.nodes, self.gpus, self.scheduler = folder.resolve(), nodes, gpus, scheduler
        self.parameters = SCHEDULER_PARAMETERS
        if scheduler == "backfill":
            self.parameters += f",{BACKFILL_PARAMETERS}"
        self._fault, self._daemons = "", list[subprocess.Popen[bytes]]()
        self.environment = os.environ | {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            MARK: str(self.folder),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
            "TZ": "UTC",
        }

    def __enter__(self) -> Self:
        """Start the daemons and wait until all nodes are idle."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process."""
        self.stop()

    # What a user does.

    def submit(self, job: Submission) -> int:
        """Submit a job that sleeps; return its id."""
        nodes = -(-job.gpus // self.gpus)
        script = SCRIPT.format(folder=self.folder, seconds=job.run_s)
        asked = [f"--nodes={nodes}", f"--gpus-per-node={job.gpus // nodes}", f"--time={job.limit_min}"]
        return int(self.call("sbatch", "--parsable", "--output=/dev/null", *asked, input_=script))

    def submit_all(self, jobs: list[Submission]) -> list[int]:
        """Submit jobs at their times; return their ids."""
        began, ids = time.monotonic(), []
        for job in jobs:
            time.sleep(max(began + job.at_s - time.monotonic(), 0.0))
            ids.append(self.submit(job))
        return ids

    def wait(self, patience_s: float) -> None:
        """Wait until no job is left; TimeoutError after `patience_s`."""
        until = time.monotonic() + patience_s
        while left := self.call("squeue", "--noheader", "--format=%i").split():
            if time.monotonic() > until:
                raise TimeoutError(f"{len(left)} jobs are left after {patience_s:,.0f} s")
            time.sleep(1.0)

    def sacct(self) -> str:
        """Return the accounting in the format that `traces.slurm` reads."""
        return self.call(*EXPORT.split())

    def call(self, *command: str, input_: str | None = None) -> str:
        """Return the output of one of Slurm's commands; RuntimeError with its message if it fails."""
        ran = subprocess.run(
            command,
            env=self.environment,
            input=input_,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if ran.returncode:
            raise RuntimeError(f"{command[0]} failed: {ran.stderr.strip()[-500:]}")
        return ran.stdout

    # The daemons.

    def _start(self) -> None:
        for name in ("state", "began", "sql"):
            (self.folder / name).mkdir()
        self._write_settings()
        self._launch("munged", "--foreground", "--force", *self._munge())
        self._until("munged", lambda: (self.folder / "munge.socket").exists())
        self._start_database()
        self._launch("slurmdbd", "-D")
        self._until("slurmdbd", lambda: self._answers("sacctmgr", "-n", "list", "cluster"))
        self.call("sacctmgr", "-i", "add", "cluster", "referee")
        self._launch("slurmctld", "-D")
        self._until("slurmctld", lambda: self._answers("scontrol", "ping"))
        for node in range(self.nodes):
            (self.folder / f"spool.n{node}").mkdir()
            self._launch("slurmd", "-D", "-N", f"n{node}", log=f"slurmd.n{node}")
        self._until("slurmd.n0", self._idle)

    def _write_settings(self) -> None:
        database_port = free_ports(self.nodes + 3)
        sql_port, port, first_port = database_port + 1, database_port + 2, database_port + 3
        words = {
            "folder": self.folder,
            "host": socket.gethostname(),
            "user": "root",
            "port": port,
            "database_port": database_port,
            "sql_port": sql_port,
            "first_port": first_port,
            "last_port": first_port + self.nodes - 1,
            "last": self.nodes - 1,
            "gpus": self.gpus,
            "last_gpu": self.gpus - 1,
            "cpus": 8 * self.gpus,
            "scheduler": self.scheduler,
            "parameters": self.parameters,
            "password": secrets.token_hex(16),
        }
        self._sql_port, self._password = sql_port, str(words["password"])
        for name, text in ("slurm.conf", CONF), ("gres.conf", GRES), ("slurmdbd.conf", DATABASE):
            (self.folder / name).write_text(text.format(**words), encoding="utf-8")
            (self.folder / name).chmod(0o600)
        for gpu in range(self.gpus):
            (self.folder / f"gpu{gpu}").touch()
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o400)

    def _munge(self) -> list[str]:
        files = {
            "key-file": "key",
            "socket": "socket",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        return [f"--{flag}={self.folder}/munge.{name}" for flag, name in files.items()]

    def _start_database(self) -> None:
        place = f"--datadir={self.folder}/sql"
        plain = ("--no-defaults", "--user=root")
        self.call(
            "mariadb-install-db", *plain, place, "--auth-root-authentication-method=socket", "--skip-test-db"
        )
        own = f"--socket={self.folder}/sql.socket"
        local = (f"--port={self._sql_port}", "--bind-address=127.0.0.1", f"--pid-file={self.folder}/sql.pid")
        self._launch("mariadbd", *plain, place, own, *local, "--innodb-flush-log-at-trx-commit=0")
        as_root = ("mariadb", "--no-defaults", own, "--user=root")
        self._until("mariadbd", lambda: self._answers(*as_root, "--execute=select 1"))
        rights = f"create user slurm@'127.0.0.1' identified by '{self._password}'; "
        self.call(
            *as_root, f"--execute={rights}grant all on slurm_acct.* to slurm@'127.0.0.1'; flush privileges"
        )

    def _launch(self, *command: str, log: str = "") -> None:
        place = self.folder / f"{log or command[0]}.out"
        with place.open("w", encoding="utf-8") as output:
            daemon = subprocess.Popen(
                ("prlimit", f"--nofile={MAX_FILES}", *command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
            )
        self._daemons.append(daemon)

    def _answers(self, *command: str) -> bool:
        try:
            self.call(*command)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self._fault = str(error)
            return False
        return True

    def _idle(self) -> bool:
        self._fault = "not all nodes are idle"
        return self.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * self.nodes

    def _until(self, daemon: str, ready: "Callable[[], bool]") -> None:
        until = time.monotonic() + PATIENCE_S
        while not ready():
            if time.monotonic() > until:
                log = "".join(
                    place.read_text(encoding="utf-8", errors="replace")[-1500:]
                    for name in (f"{daemon}.out", f"{daemon}.log")
                    if (place := self.folder / name).exists()
                )
                raise RuntimeError(f"{daemon} does not answer after {PATIENCE_S:.0f} s: {self._fault}; {log}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End every process that carries the mark: by SIGTERM, then by SIGKILL."""
        for sent, patience_s in (signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S):
            until = time.monotonic() + patience_s
            for pid in marked(self.folder):
                _send(pid, sent)
            while marked(self.folder) and time.monotonic() < until:
                time.sleep(0.1)
        for daemon in self._daemons:
            daemon.wait(GRACE_S)


def marked(folder: Path) -> list[int]:
    """Return the living processes that carry the mark of a folder."""
    wanted, found = f"{MARK}={folder}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            if state != "Z" and wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:  # it has ended meanwhile, or belongs to somebody else
            continue
    return found


def free_ports(count: int) -> int:
    """Return the first of `count` adjacent ports of 127.0.0.1 that are free; RuntimeError without any."""
    firsts = list(range(FIRST_PORT, LAST_PORT, count))
    secrets.SystemRandom().shuffle(firsts)  # two clusters that start at once get different ports
    for first in firsts:
        if all(_is_free(first + each) for each in range(count)):
            return first
    raise RuntimeError(f"no {count} adjacent ports between {FIRST_PORT} and {LAST_PORT} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _send(pid: int, sent: signal.Signals) -> None:
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return
