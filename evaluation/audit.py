"""Audit of policies: jobs that differ only in what nobody can know yet must lead to the same decisions until then.

A pair is two job tables and a time. The second table is the first with other run times of unfinished jobs, other needs
and failures of jobs that have not started, or other jobs to come (arrivals, sizes, users, number). What a policy has
done until then must be equal, on random jobs, clusters and physics; so must everything that a view shows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.evaluation.runner import Maker, is_oracle, reason_of
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import (
    Placement,
    Preempt,
    Ranking,
    Resize,
    Start,
    Wait,
    may_run_compiled,
)
from gpu_cluster_gym.workloads import Scenario, filled, prepare

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode
    from gpu_cluster_gym.simulator.policy import Action
    from gpu_cluster_gym.simulator.view import View
    from gpu_cluster_gym.workloads import Workload

PAIRS = 60
TIMES = 3  # pairs of a table
MAX_TABLES = 10  # tried for each wanted pair, before giving up
ROUNDING = 1e-6  # of times: sums over other jobs may round differently
CLUSTERS = ("2x8", "3x4", "2x4+1x8-k80", "2x2-a100+2x4", "4x2", "2x8-40c", "1x8", "1x4-16gb+2x4-32gb")
OPTIONAL = (
    *("memory", "preemption", "sharing", "locality", "cores", "bandwidth", "cpu_jobs", "elastic"),
    *("gpu_types", "failures", "startup", "links", "exchange", "profiles"),
)
"""Parts of physics that are on or off; estimates are always on, since without them run times are known."""
USERS = ("m", "n", "o", "p")
SHOWN = "what a view shows"
WHOLE = (
    *("now", "instant", "max_share", "cpu_limited", "bandwidth_limit_gbs", "borrowing", "nothing_pending"),
    *("queue", "waiting", "startable", "running", "loading", "pausing", "preemptible"),
)
"""Attributes of a view that are not tables."""


OF_QUEUED: dict[str, Callable[["View", int], object]] = {
    "profile": lambda view, job: view.profile(job),
    "can_hold": lambda view, job: view.can_hold(job),
    "type_speed": lambda view, job: view.type_speed(job),
    "place": lambda view, job: str(view.place(job)),
    "place_claim": lambda view, job: str(view.place_claim(job)),
    "pick": lambda view, job: str(view.pick(job)),
    "just_paused": lambda view, job: view.just_paused(job),
    "why_not start": lambda view, job: str(view.why_not(Start(job, Placement((0,))))),
}
OF_RUNNING: dict[str, Callable[["View", int], object]] = {
    "gpus_of": lambda view, job: view.gpus_of(job),
    "why_not pause": lambda view, job: str(view.why_not(Preempt(job))),
    "why_not cores": lambda view, job: str(view.why_not(Resize(job, 2.0))),
}
"""Answers of a view about a queued job, and about a running one, as arrays or text."""


class Leak(NamedTuple):
    """A pair that differs: its seed, its time, what was changed, and the first difference."""

    seed: int
    time_s: float
    changed: tuple[str, ...]
    difference: str


@dataclass
class Audited:
    """Result for a policy: pairs tried, those that differ, and the seeds and errors of tables that were left out."""

    name: str
    pairs: int = 0
    leaks: list[Leak] = field(default_factory=list)
    left_out: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a line."""
        if not self.pairs:
            why = "nothing differed"
            if self.left_out:
                seed, error = self.left_out[0]
                why = f"{error} (random workload {seed}; --audit --seed {seed} begins with it)"
            return f"{self.name}: no pair could be tried: {why}"
        line = f"{self.name}: {self.pairs} pairs, {len(self.leaks)} {'leak' if len(self.leaks) == 1 else 'leaks'}"
        if self.leaks:
            first = self.leaks[0]
            line += (
                f"; with other {', '.join(first.changed)} from {first.time_s:g} s on, the policy had already "
                f"decided otherwise (random workload {first.seed}): {first.difference}"
            )
        if self.left_out:
            count = f"{len(self.left_out)} workload{'s' * (len(self.left_out) > 1)}"
            first_seed, error = self.left_out[0]
            line += (
                f"; left out, since the policy failed there: {count} (random workload {first_seed}: {error})"
            )
        if self.leaks or self.left_out:
            seed = self.leaks[0].seed if self.leaks else self.left_out[0][0]
            line += f"; --audit --seed {seed} begins with random workload {seed}"
        return line


class Watcher:
    """A policy that acts by remaining time and notes everything that its view shows."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.seen: list[tuple[float, dict[str, bytes]]] = []
        self._ranking = Ranking("remaining", "by_order")

    def __call__(self, view: "View") -> "Action":
        """Note what is shown, and return the next action."""
        self.seen.append((view.now, shown(view)))
        return view.next_move(self._ranking)


def shown(view: "View") -> dict[str, bytes]:
    """Return all that a view shows by name, as bytes of numbers to twelve digits."""
    tables = {"jobs": view.jobs, "gpus": view.gpus, "nodes": view.nodes, "tenants": view.tenants}
    arrays = {f"{of}.{name}": getattr(table, name) for of, table in tables.items() for name in fields(table)}
    arrays |= {name: np.asarray(getattr(view, name)) for name in WHOLE}
    for job in view.queue[:1].tolist():
        arrays |= {f"{name}({job})": np.asarray(ask(view, job)) for name, ask in OF_QUEUED.items()}
    for job in view.running[:1].tolist():
        arrays |= {f"{name}({job})": np.asarray(ask(view, job)) for name, ask in OF_RUNNING.items()}
    arrays["start_first"] = np.asarray(str(view.start_first(view.queue)))
    arrays["jobs_of"] = view.jobs_of(view.queue).remaining_s
    arrays["why_not wait"] = np.asarray(str(view.why_not(Wait())))
    return {name: rounded(array).tobytes() for name, array in arrays.items()}


def fields(table: object) -> Iterator[str]:
    """Yield the names of the arrays of a view's table."""
    return (name for name in dir(type(table)) if not name.startswith("_") and name != "count")


def rounded(array: np.ndarray) -> np.ndarray:
    """Return numbers to twelve digits, since sums over other jobs may round differently."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (11 - np.floor(np.log10(np.abs(array))))
        found: np.ndarray = np.where(np.isfinite(digits), np.round(array * digits) / digits, array)
    return found


class Outcome(NamedTuple):
    """A simulation: its episode, its segments and holdings, what was seen, and the error that ended it."""

    episode: "Episode"
    account: Account
    policy: Any
    error: str | None


def audit(
    makers: Mapping[str, Maker],
    *,
    pairs: int | None = None,
    seed: int = 0,
    done: Callable[[Audited], None] | None = None,
    moved: Callable[[int], None] = lambda pairs: None,
) -> list[Audited]:
    """Try pairs with each policy, and with what a view shows; return the results in that order.

    pairs: of each; default: PAIRS. done: callback with each result as it is complete. moved: callback with a number of
    pairs as they are tried, or as it is clear that no more can be.
    """
    found, pairs = [], pairs or PAIRS
    every: dict[str, Maker] = {SHOWN: Watcher, **makers}
    for name, make in every.items():
        result = Audited(name)
        for number in count(seed):
            if result.pairs >= pairs or number - seed >= MAX_TABLES * pairs:
                break
            before = result.pairs
            try_table(result, make, number, min(TIMES, pairs - before))
            moved(result.pairs - before)
        moved(pairs - result.pairs)
        found.append(result)
        if done:
            done(result)
    return found


def try_table(result: Audited, make: Maker, seed: int, times: int) -> None:
    """Try a policy on a random table and on some that differ from it after a random time."""
    rng = traces.stream(seed, "audit")
    try:
        load = random_workload(rng)
    except ValueError:
        return  # the jobs do not fit the cluster, or the physics excludes the placement
    first = simulated(load, make, oracle=is_oracle(result.name))
    if first.error:
        result.left_out.append((seed, first.error))
        return
    if difference := compiled_difference(load, make, first, oracle=is_oracle(result.name)):
        result.leaks.append(Leak(seed, 0.0, ("ways of running it",), difference))
    instants = np.unique(first.account.segments()["from_s"])[1:]
    for time_s in rng.permutation(instants)[:times].tolist():
        changed = Changed(load, first.episode, time_s, rng)
        try:
            other = prepare(changed.table, load.scenario, quotas=quotas_of(load))
        except ValueError:
            continue
        if not changed.names or len(other.table) != len(changed.table):
            continue
        second = simulated(other, make, oracle=is_oracle(result.name))
        if second.error and float(second.episode.state.clock) >= time_s:
            continue
        result.pairs += 1
        if difference := first_difference(first, second, time_s):
            result.leaks.append(Leak(seed, time_s, tuple(changed.names), difference))


def quotas_of(load: "Workload") -> dict[str, int] | None:
    """Return the quotas of a workload, which its scheduler knows from the beginning; None without tenants."""
    tenants = load.tenants
    known = {name: gpus for name, gpus in zip(tenants.names, tenants.quotas, strict=True) if gpus}
    return known or None


def simulated(load: "Workload", make: Maker, *, oracle: bool) -> Outcome:
    """Simulate a new policy with an account."""
    episode, account, policy, error = load.episode(), Account(), make(), None
    try:
        run(policy, episode, oracle=oracle, account=account)
    except Exception as raised:  # a user's policy raises anything
        error = reason_of(raised)
    return Outcome(episode, account, policy, error)


def compiled_difference(load: "Workload", make: Maker, asked: Outcome, *, oracle: bool) -> str | None:
    """Return a difference between a policy asked step by step, as it is audited, and run compiled, as it is scored."""
    if not may_run_compiled(asked.policy):
        return None
    episode = load.episode()
    try:
        run(make(), episode, oracle=oracle)
    except Exception as raised:  # as in `simulated`
        return f"compiled, it ended with an error: {reason_of(raised)}"
    one, other = (each.state.finish_s[: len(load.jobs)] for each in (asked.episode, episode))
    if not len(differ := np.flatnonzero(one != other)):
        return None
    job = int(differ[0])
    return f"asked step by step, job {job} ended at {one[job]:g} s; compiled, at {other[job]:g} s"


def first_difference(one: Outcome, other: Outcome, time_s: float) -> str | None:
    """Return the first difference before a time, None if there is none."""
    if other.error:
        return f"an error at {other.episode.state.clock:g} s: {other.error}"
    rows, others = until(one.account, time_s), until(other.account, time_s)
    for row, its in zip(rows, others, strict=False):
        if row.what != its.what or not np.allclose(row.numbers, its.numbers, ROUNDING, ROUNDING):
            return f"{row} became {its}"
    if len(rows) != len(others):
        return f"{len(rows)} stretches of jobs became {len(others)}"
    if isinstance(one.policy, Watcher):
        for (now, seen), (_, its) in zip(one.policy.seen, other.policy.seen, strict=False):
            if now < time_s and seen != its:
                names = [name for name in seen if seen[name] != its.get(name)]
                return f"at {now:g} s the view showed another {', '.join(names)}"
    return None


class Stretch(NamedTuple):
    """Part of a job's life: what it held, and the times and amounts."""

    what: tuple[Any, ...]
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        """Return job, phase, times, GPUs and cores."""
        job, phase, _, held = self.what
        begin_s, end_s, cores = self.numbers
        gpus = f" on GPUs {', '.join(map(str, held[0]))}" if held and len(held[0]) else ""
        amount = f", {cores:g} cores" if cores else ""
        return f"job {job} {phase} from {begin_s:g} to {end_s:g} s{gpus}{amount}"


def until(account: Account, time_s: float) -> list[Stretch]:
    """Return what the jobs did before a time, by job and time."""
    holdings = account.holdings()
    rows: list[Any] = list(account.segments().itertuples(index=False))
    held = list(zip(*(holdings[name] for name in ("gpus", "workers", "servers", "node")), strict=True))
    return [
        Stretch(
            (row.job, row.phase, row.throttle, held[row.holding] if row.holding >= 0 else ()),
            (row.from_s, min(row.to_s, time_s), row.cores),
        )
        for row in rows
        if row.from_s < time_s
    ]


# Random jobs, and the same jobs with another future.


def random_workload(rng: np.random.Generator) -> "Workload":
    """Return random jobs on a random cluster under random physics; ValueError where they do not go together."""
    physics = ["standard", "all", ",".join(("estimates", *(part for part in OPTIONAL if rng.random() < 0.6)))]
    failing_h = float(rng.choice([2, 20]))
    scenario = Scenario(
        cluster=str(rng.choice(CLUSTERS)),
        physics=physics[int(rng.choice(3, p=[0.25, 0.25, 0.5]))],
        full_trace=True,
        seed=int(rng.integers(1000)),
        tick=float(rng.choice([60, 300, 1000])),
        placement=rng.choice(["best_fit", "first_fit", "spread"]).item(),
        drop_too_large=True,
        max_share=int(rng.integers(2, 5)),
        deadline_slack=float(rng.choice([0, 1])),
        contention_form=rng.choice(["turns", "excess"]).item(),
        profiling=float(rng.choice([0, 30])),
        oom_victim=rng.choice(["random", "newcomer", "grower"]).item(),
        run_time_predictor=rng.choice(["", "mixed", "philly_backlog", "busy"]).item() or None,
    )
    more = rng.spawn(1)[0]  # of its own, so that these draws leave the others as they are
    scenario = replace(scenario, **random_rules(more))
    if "failures" in scenario.parts:
        scenario = replace(scenario, node_mtbf_h=failing_h, node_repair_h=0.5)
        if more.random() < 0.5:
            drains_h = float(more.choice([6, 24]))
            scenario = replace(scenario, drain_every_h=drains_h, drain_notice_h=0.2, drain_length_h=0.5)
    table = filled(traces.check(random_jobs(rng, int(rng.integers(10, 36)))), scenario, seed=scenario.seed)
    known = {
        "crash_at": np.where(rng.random(len(table)) < 0.3, rng.uniform(0.1, 0.95, len(table)), 1.0),
        "predictable_from": rng.choice([0, 0, 0.3, 0.6, 1.0], len(table)),
    }
    richer = table.assign(**{name: cells for name, cells in known.items() if name in table})
    richer.attrs = table.attrs
    return prepare(richer, scenario)


def random_rules(rng: np.random.Generator) -> dict[str, Any]:
    """Return a discipline, and for half of the workloads quotas of some or all of the users."""
    rules: dict[str, Any] = {"discipline": rng.choice(["greedy", "greedy", "strict", "easy"]).item()}
    if rng.random() < 0.5:
        return rules
    named = rng.permutation(USERS)[: rng.integers(1, len(USERS))]
    quotas = rng.choice(["proportional", ",".join(f"{name}={rng.integers(1, 4)}" for name in named)]).item()
    return rules | {"quotas": quotas, "borrowing": rng.choice(["none", "idle", "reclaim"]).item()}


def random_jobs(rng: np.random.Generator, jobs: int) -> pd.DataFrame:
    """Return jobs of some minutes that queue, a few of them without GPUs."""
    gpus = rng.choice([0, 1, 1, 1, 2, 4, 8], jobs)
    cores = np.where(gpus > 0, gpus * rng.integers(1, 7, jobs), rng.integers(1, 12, jobs))
    return pd.DataFrame(
        {
            "job_id": [f"j{job}" for job in range(jobs)],
            "submit_s": np.cumsum(rng.choice([0.0, 0.0, 15.0, 60.0, 200.0], jobs)),
            "num_gpus": gpus,
            "duration_s": np.ceil(rng.lognormal(6.8, 1.2, jobs)),
            "kind": np.where(gpus > 0, "gpu", "cpu"),
            "user": (user := rng.choice(USERS, jobs)),
            "tenant": user,
            "cpu_cores": cores,
            "bandwidth_gbs": np.where(gpus == 0, cores * 4.0, rng.uniform(0, 5, jobs)),
        }
    )


class Changed:
    """The jobs of a workload with another future after a time of its episode.

    table: the other jobs.
    names: what differs.
    """

    def __init__(self, load: "Workload", episode: "Episode", time_s: float, rng: np.random.Generator) -> None:
        """Change one to three things."""
        self.time_s, self._rng, self._load = time_s, rng, load
        self.table, self.names = load.table.copy(), list[str]()
        self.table.attrs = load.table.attrs
        jobs = len(self.table)
        started = episode.state.start_s[:jobs] < time_s
        self._unfinished = started & ~(episode.state.finish_s[:jobs] < time_s)
        arrived = (self.table["submit_s"] < time_s).to_numpy()
        self._fresh, self._future = arrived & ~started, ~arrived
        ways = (self._run_times, self._failures, self._predictions, self._needs, self._future_jobs)
        for way in rng.permutation(len(ways))[: rng.integers(1, 4)]:
            before = self.table.copy()
            ways[way]()
            if not before.equals(self.table):
                self.names.append(ways[way].__name__.strip("_").replace("_", " "))

    def _run_times(self) -> None:
        """Double or quadruple run times of running jobs; their failures and predictability keep their times."""
        rng, table = self._rng, self.table
        longer = np.where(self._unfinished, rng.choice([2.0, 4.0], len(table)), 1.0)
        other = np.where(self._fresh, np.exp(rng.uniform(-2, 2, len(table))), longer)
        self.table["duration_s"] = table["duration_s"] * other
        for name in ("crash_at", "predictable_from"):
            if name in table:
                self.table[name] = np.where(table[name] < 1, table[name] / longer, table[name])

    def _failures(self) -> None:
        """Let other jobs fail, of those that have not started."""
        self._set("crash_at", self._fresh, self._rng.choice([0.2, 0.5, 1.0], len(self.table)))

    def _predictions(self) -> None:
        """Let estimates become accurate at another share of the run, and with another value."""
        if "predictable_from" in self.table:
            some = self._fresh & (self.table["predictable_from"] > 0).to_numpy()
            self._set("predictable_from", some, self._rng.choice([0.2, 0.7, 1.0], len(self.table)))
            self._scale("predicted_duration_s", some)

    def _needs(self) -> None:
        """Give jobs that have not started other needs, except those that `View.profile` shows."""
        some = self._fresh & (self.table["num_gpus"] > 0).to_numpy()
        if (
            len(set(self._load.cluster.node_gpu_memory_gib)) == 1
        ):  # else it is known which nodes can hold a job
            largest_gib = cluster(self._load.scenario.cluster_name).largest_gpu_gib
            self._scale("gpu_memory_gib", some, largest_gib * 0.99)
        self._scale("bandwidth_gbs", self._fresh)

    def _future_jobs(self) -> None:
        """Let other jobs come, of other users, at other times, and fewer of them."""
        rng, table, coming = self._rng, self.table, np.flatnonzero(self._future)
        if not len(coming):
            return
        other = [name for name in table.columns if name not in ("job_id", "submit_s", "depends_on")]
        order = rng.permutation(coming)
        for name in other:
            table.loc[coming, name] = table[name].to_numpy()[order]
        table.loc[coming, "duration_s"] *= np.exp(rng.uniform(-1, 1, len(coming)))
        span = 2 * (float(table["submit_s"].iloc[-1]) - self.time_s) + 1000
        table.loc[coming, "submit_s"] = self.time_s + np.sort(rng.uniform(0, span, len(coming)))
        if "deadline_s" in table:
            late = table.loc[coming, "submit_s"] + 1000.0
            table.loc[coming, "deadline_s"] = np.where(table.loc[coming, "deadline_s"] > 0, late, 0.0)
        table.loc[coming, "user"] = rng.choice(["a", "b", "n", "z"], len(coming))
        table.loc[coming, "tenant"] = table.loc[coming, "user"]
        if len(coming) > 1 and rng.random() < 0.5:
            self.table = table.iloc[: len(table) - int(rng.integers(1, len(coming)))].reset_index(drop=True)
            self.table.attrs = table.attrs
            for name in ("_unfinished", "_fresh", "_future"):
                setattr(self, name, getattr(self, name)[: len(self.table)])

    def _set(self, name: str, some: np.ndarray, cells: np.ndarray) -> None:
        if name in self.table:
            self.table[name] = np.where(some, cells, self.table[name])

    def _scale(self, name: str, some: np.ndarray, most: float = np.inf) -> None:
        if name in self.table:
            cells = self.table[name].to_numpy() * np.exp(self._rng.uniform(-1.0, 1.0, len(self.table)))
            self._set(name, some, np.minimum(cells, most))
