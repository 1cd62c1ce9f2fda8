"""Rows of the speed table: rankings, policies, environments, learning, first results. Importing it registers them."""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from benchmarks import yardsticks
from benchmarks.timing import Contest, Setting, SkippedError, Work, row
from benchmarks.yardsticks import Null, NullBatch
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, JOB_TIERS
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.rule_policy import Rollouts, Rule, memory_of
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows

POLICIES = ("fifo", "sjf", "easy", "las", "srtf", "xion_threshold")
BARS_S = {"fifo": 0.15, "sjf": 0.1, "easy": 0.2, "las": 0.2, "srtf": 0.3, "xion_threshold": 0.5}
MANY, MORE, FEW = 117_000, 1_000_000, 4_000  # jobs
QUICK_JOBS, SMALL = 400, "8x8"  # of a quick run: all of it in the smallest record, which is compiled once
LOAD = 0.85
CHANGING = "memory,estimates,sharing,locality,cores,bandwidth,links"
TEXTBOOK: dict[str, Callable[[Sequence[yardsticks.Job], int], list[float]]] = {
    "fifo": yardsticks.fifo,
    "sjf": yardsticks.sjf,
    "srtf": yardsticks.srtf,
}


class Flow(NamedTuple):
    """Jobs of Philly's generator on its cluster: how many, what of physics is on, and how they arrive.

    steady: at random instants of a span that gives the load, instead of in Philly's bursts, which make long queues.
    """

    jobs: int
    physics: str = "none"
    steady: bool = False
    load: float = LOAD
    cluster: str = "philly"


@cache
def workload(flow: Flow) -> Workload:
    """Return the workload of a flow."""
    scenario = Scenario(
        trace="philly",
        full_trace=True,
        jobs=flow.jobs,
        cluster=flow.cluster,
        physics=flow.physics,
        target_load=flow.load,
        drop_too_large=True,
    )
    made = full_trace(scenario)
    if not flow.steady:
        return made
    jobs = made.jobs[np.random.default_rng(0).permutation(len(made.jobs))]
    area = float((jobs["num_gpus"] * jobs["duration_s"]).sum())
    span_s = area / (flow.load * made.cluster.num_gpus)
    jobs["submit_s"] = np.sort(np.random.default_rng(1).uniform(0, span_s, len(jobs)))
    return replace(made, jobs=jobs)


def ranking(policy: str) -> Ranking:
    """Return a policy that is only an order."""
    made = baselines.make(baselines.load(policy))
    assert isinstance(made, Ranking), f"{policy} is more than an order"
    return made


def simulation(load: Workload, policy: str, amount: float = 1.0) -> Work:
    """Return the work of simulating a workload."""
    return Work(partial(run, ranking(policy)), amount, load.episode)


def compiling(load: Workload, policy: str) -> Callable[[], object]:
    """Return what compiles all that simulating a workload needs: a run of its first jobs in a record as large."""
    count = next((size + 1 for size in reversed(JOB_TIERS) if size < len(load.jobs)), len(load.jobs))
    part = replace(load, jobs=load.jobs[:count])
    return lambda: run(ranking(policy), part.episode())


def textbook(load: Workload, policy: str) -> tuple[Work, str]:
    """Return a textbook's simulation of the same jobs on a pool of as many GPUs, and what it is called."""
    rows = load.jobs[["submit_s", "num_gpus", "duration_s"]].tolist()
    gpus = load.cluster.num_gpus
    return Work(lambda _: TEXTBOOK[policy](rows, gpus), len(rows)), "textbook heapq loop on a pool"


def flowing(setting: Setting, flow: Flow) -> Workload:
    """Return the workload of a flow, a small one where it is to be quick."""
    return workload(flow._replace(jobs=QUICK_JOBS, cluster=SMALL) if setting.quick else flow)


def trace_row(policy: str, physics: str, steady: bool) -> None:
    """Register a row of the whole trace."""
    arrivals = "at random instants" if steady else "in bursts"
    bar = BARS_S[policy] if physics == "none" else None

    @row(f"{policy}_{physics}_{'steady' if steady else 'philly'}", unit="s", bar=bar)
    def make(setting: Setting) -> Contest:
        load = flowing(setting, Flow(MANY, physics, steady))
        return Contest(simulation(load, policy), warm=compiling(load, policy))

    make.__doc__ = f"{MANY:,} Philly-like jobs on 2,490 GPUs, load {LOAD}, arriving {arrivals}"


def million_row(policy: str, bar: float) -> None:
    """Register a row of a million jobs."""

    @row(f"{policy}_million", unit="s", bar=bar, large=True)
    def make(setting: Setting) -> Contest:
        """1,000,000 Philly-like jobs on 2,490 GPUs, load .85, arriving at random instants."""
        load = flowing(setting, Flow(MORE, steady=True))
        return Contest(simulation(load, policy), warm=compiling(load, policy))


def textbook_row(policy: str) -> None:
    """Register a row of the same work as a textbook's loop does, for which there is a yardstick."""

    @row(f"{policy}_pool", unit="us")
    def make(setting: Setting) -> Contest:
        """4,000 jobs on a pool, a job; times faster than a textbook's loop."""
        load = flowing(setting, Flow(FEW, steady=True, cluster=SMALL))
        load = replace(load, scenario=replace(load.scenario, placement="pooled"))
        theirs, name = textbook(load, policy)
        return Contest(simulation(load, policy, len(load.jobs)), theirs, name)


def event_row(policy: str) -> None:
    """Register a row of what an instant costs."""

    @row(f"{policy}_event", unit="us")
    def make(setting: Setting) -> Contest:
        """4,000 Philly-like jobs on 8x8, load .85, usual physics: an instant."""
        load = flowing(setting, Flow(FEW, "exclusive", cluster=SMALL))
        instants = int(run(ranking(policy), load.episode()).state.instant)
        return Contest(simulation(load, policy, instants))


for _policy in POLICIES:
    for _physics in ("none", "exclusive"):
        for _steady in (True, False):
            trace_row(_policy, _physics, _steady)
for _policy, _bar in (("fifo", 1.0), ("srtf", 3.0)):
    million_row(_policy, _bar)
for _policy in TEXTBOOK:
    textbook_row(_policy)
for _policy in ("fifo", "srtf", "xion_threshold"):
    event_row(_policy)


def one_gpu_jobs(queue: int, jobs: int, gpus: int) -> np.ndarray:
    """Return jobs that each take a GPU for ten minutes on average and come `queue` at a time, as fast as they leave."""
    made = np.zeros(jobs, JOB)
    rng = np.random.default_rng(0)
    made["num_gpus"] = 1
    made["duration_s"] = made["profiled_duration_s"] = rng.uniform(300, 900, jobs)
    made["predictable_from"] = 1.0
    made["submit_s"] = np.arange(jobs) // queue * (queue * 600.0 / gpus)
    return made


def contest_of_growth(small: tuple[int, int, str], large: tuple[int, int, str]) -> Contest:
    """Hold the cost of a job in the larger case (queue, jobs, cluster) against that in the smaller."""

    def work(queue: int, jobs: int, machines: str) -> Work:
        there = cluster(machines)
        table = one_gpu_jobs(queue, jobs, there.num_gpus)
        return Work(partial(run, ranking("sjf")), jobs, lambda: Episode(table, there, exact=True))

    contest = Contest(work(*large), work(*small), "the smaller case")
    return contest._replace(warm=lambda: [each.run(each.prepare()) for each in (work(*small), work(*large))])


@row("growth_queue", unit="x", bar=2.0)
def growth_with_queue(setting: Setting) -> Contest:
    """Cost of a job under sjf where 100,000 queue, over that where 100 do; the same record."""
    queue = QUICK_JOBS if setting.quick else 100_000
    return contest_of_growth((100, queue, "8x8"), (queue, queue, "8x8"))


@row("growth_gpus", unit="x")
def growth_with_gpus(setting: Setting) -> Contest:
    """Cost of a job under sjf on 8,192 GPUs, over that on 64."""
    jobs, large = (QUICK_JOBS, "32x8") if setting.quick else (5_000, "1024x8")
    return contest_of_growth((100, jobs, "8x8"), (100, jobs, large))


@row("growth_jobs", unit="x")
def growth_with_jobs(setting: Setting) -> Contest:
    """Cost of a job under sjf among 100,000 jobs, over that among 200."""
    jobs = QUICK_JOBS if setting.quick else 100_000
    return contest_of_growth((100, 200, "8x8"), (100, jobs, "8x8"))


def speeds_row(name: str, load: float, bar: float) -> None:
    """Register a row of jobs whose speed changes with what runs beside them."""

    @row(name, unit="/s", bar=bar)
    def make(setting: Setting) -> Contest:
        made = flowing(setting, Flow(FEW, CHANGING, load=load, cluster=SMALL))
        return Contest(simulation(made, "fifo", 2.0 * len(made.jobs)))

    make.__doc__ = f"Starts and ends a second under fifo where speeds depend on neighbours, load {load}"


speeds_row("changing_speeds_free", 0.4, 2e6)
speeds_row("changing_speeds_full", 1.5, 1e6)


# --- Rows of policies that are more than an order, over a window of two workloads, and a whole trace.

PAPERS = ("xonar", "xion", "coda", "aiturbo")
OTHERS = ("gavel", "lucid", "tiresias")
BAR_S, UNION_BAR_S, TRACE_BAR_S = 0.1, 0.04, 60.0
TRACE = "trace"  # of Philly's generator, on the workload's 64 GPUs
ROLLOUT_BAR_S, ROLLOUTS = 0.002, 20
QUICK_JOBS = 60


@cache
def window(name: str, quick: bool) -> Workload:
    """Return the first test window of a workload; its first jobs alone where it is to be quick."""
    if name == TRACE:
        jobs = QUICK_JOBS if quick else 80_000
        whole = replace(named("philly"), jobs=jobs, all_windows=True, target_load=0.85)
        return windows(whole, "train", 1)[0]
    load = windows(named(name), "test", 1)[0]
    if not quick:
        return load
    return load.__class__(load.table, load.jobs[:QUICK_JOBS], load.cluster, load.scenario, load.window)


def policy_row(policy: str, workload: str, bar: float | None) -> None:
    """Register a row of a policy on a workload."""

    @row(f"{policy}_on_{workload}", unit="s", bar=bar, large=workload == TRACE)
    def make(setting: Setting) -> Contest:
        load = window(workload, setting.quick)
        made = partial(baselines.make, baselines.load(policy))
        return Contest(Work(lambda episode: run(made(), episode), prepare=load.episode))

    whole = "80,000 jobs of Philly's generator on 64 GPUs at a load of .85"
    make.__doc__ = whole if workload == TRACE else f"The first test window of {workload}"


for _policy in (*PAPERS, *OTHERS):
    for _workload in ("mixed", "philly"):
        policy_row(_policy, _workload, BAR_S)
    policy_row(_policy, TRACE, TRACE_BAR_S)
policy_row("union", "mixed", UNION_BAR_S)
policy_row("union", "philly", None)
policy_row("union", TRACE, None)


@row("rollout_on_mixed", unit="s", bar=ROLLOUT_BAR_S)
def rollout(setting: Setting) -> Contest:
    """Carry the rule from the middle of a window of mixed to its end: drawn run times, no arrivals, copies included."""
    load = window("mixed", setting.quick)
    episode = load.episode()
    memory = memory_of(Rule(), episode.states, episode.jobs, episode.histories)
    until = float(episode.jobs["submit_s"][len(episode.jobs) // 2])
    decide.run_until(episode.states, 0, memory, 0, episode.jobs, until)
    room = Rollouts(episode.states, memory, episode.jobs)

    def work(_: object) -> None:
        for seed in range(ROLLOUTS):
            room.copy(episode.states, 0, memory, 0, episode.jobs)
            room.sample_belief(seed)
            room.run()

    return Contest(Work(work, ROLLOUTS))


# --- Rows of the environment: steps of one, and of a batch.

ENVIRONMENT = "GPUCluster-v2"
BARS = {"plain": 60_000.0, "plain_by_agent": 200_000.0}  # steps per second
BATCH_BARS = {"plain": 300_000.0, "plain_by_agent": None, "moves": 30_000.0}
BY_AGENT = {"placed_by": "agent", "victims_by": "agent"}
ACTIONS: dict[str, dict[str, Any]] = {
    "plain": {"action": "plain"},
    "plain_by_agent": {"action": "plain", **BY_AGENT},
    "moves": {"action": "moves"},
}
"""Keywords of the environment by the name in a row."""
ON = {"moves": "GPUCluster-mixed-v2"}  # where a batch is not of Philly's windows
NOTHING = "the same spaces, doing nothing"
BATCH, STEPS, QUICK_STEPS, LENGTH = 64, 4_000, 100, 512


def environment(action: str) -> Any:
    """Make the environment as a user does."""
    importlib.import_module("gpu_cluster_gym")
    return gymnasium.make(ENVIRONMENT, **ACTIONS[action], count=4, disable_env_checker=True)


def batch(action: str, count: int = BATCH) -> Any:
    """Make a batch of environments as a user does."""
    importlib.import_module("gpu_cluster_gym")
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    name = ON.get(action, ENVIRONMENT)
    return gymnasium.make_vec(name, count, vectorization_mode=mode, **ACTIONS[action], count=4)


def steps(env: Any, count: int, mask: Callable[[], np.ndarray]) -> None:
    """Step through episodes, one after the other; the first action that is legal starts a job where one can."""
    env.reset(seed=0)
    for _ in range(count):
        _, _, terminated, truncated, _ = env.step(int(mask().argmax()))
        if terminated or truncated:
            env.reset()


def batch_steps(env: Any, count: int, mask: np.ndarray | None) -> None:
    """Step a batch so often; without a mask by what the environments tell."""
    _, info = env.reset(seed=0)
    for _ in range(count):
        legal = info["action_mask"] if mask is None else mask
        _, _, _, _, info = env.step(legal.argmax(axis=1))


def null_like(env: Any) -> Null:
    """Return an environment with the same spaces that does nothing."""
    shown, _ = env.reset(seed=0)
    return Null(shown, gymnasium.spaces.Discrete(env.action_space.n), env.observation_space, LENGTH)


def step_row(action: str) -> None:
    """Register a row of single steps."""

    @row(f"step_{action}", unit="/s", bar=BARS[action])
    def make(setting: Setting) -> Contest:
        env = environment(action)
        null = null_like(env)
        mask = env.unwrapped.action_masks()
        count = QUICK_STEPS if setting.quick else STEPS
        ours = Work(lambda _: steps(env, count, env.unwrapped.action_masks), count)
        theirs = Work(lambda _: steps(null, STEPS, lambda: mask), STEPS)
        return Contest(ours, theirs, NOTHING)

    make.__doc__ = f"Steps through gymnasium.make, action {action}, mask and observation included"


def batch_row(action: str) -> None:
    """Register a row of steps of a batch."""

    @row(f"batch_{action}", unit="/s", bar=BATCH_BARS[action])
    def make(setting: Setting) -> Contest:
        env = batch(action)
        shown, info = env.reset(seed=0)
        null = NullBatch(shown, BATCH)
        mask = np.array(info["action_mask"])
        count = QUICK_STEPS if setting.quick else STEPS // 4
        ours = Work(lambda _: batch_steps(env, count, None), count * BATCH)
        return Contest(ours, Work(lambda _: batch_steps(null, count, mask), count * BATCH), NOTHING)

    make.__doc__ = f"Steps of a batch of {BATCH} through gymnasium.make_vec, action {action}, all included"


@row("growth_environments", unit="x")
def growth_with_environments(setting: Setting) -> Contest:
    """Cost of a step of one environment, action plain, in a batch of 512, over that in a batch of 64."""
    count = QUICK_STEPS if setting.quick else STEPS // 4

    def work(environments: int) -> Work:
        env = batch("plain", environments)
        often = count * BATCH // environments
        return Work(lambda _: batch_steps(env, often, None), often * environments)

    return Contest(work(8 * BATCH), work(BATCH), "the smaller batch")


for _action in BARS:
    step_row(_action)
for _action in BATCH_BARS:
    batch_row(_action)


# --- Rows of learning: what a frame of Stable-Baselines3's PPO costs, over one on the same spaces doing nothing.

BATCH = 64
LEARNER: dict[str, Any] = {"n_steps": 64, "batch_size": 1024, "n_epochs": 4, "device": "cpu", "seed": 0}
MOST_OVER_NULL = 1.25  # .8 of the frames a second
CHOICES: dict[str, dict[str, Any]] = {
    "plain": {"observation": "slots", "illegal": "first_legal"},
    "moves": {"illegal": "first_legal"},
}


def envs_of(action: str) -> Any:
    """Return a batch of environments as a learner takes it."""
    importlib.import_module("gpu_cluster_gym")
    from gpu_cluster_gym.agents.vec_env import ClusterVecEnv

    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    chosen = {"action": action, "count": 4, "autoreset": "Disabled", **CHOICES[action]}
    name = ON.get(action, ENVIRONMENT)
    env: Any = gymnasium.make_vec(name, BATCH, vectorization_mode=mode, **chosen)
    return ClusterVecEnv(env)


def null_batch_like(envs: Any) -> Any:
    """Return a batch with the same spaces that does nothing: no episode ends, and every step shows the same."""
    shown = envs.reset()
    nothing = np.zeros(BATCH, np.float32), np.zeros(BATCH, bool)

    class NullEnvs(type(envs)):  # type: ignore[misc]
        """Shows what the first step shows."""

        def reset(self) -> Any:
            """Begin the episodes."""
            return shown

        def step_wait(self) -> Any:
            """Take the step."""
            return shown, *nothing, [{} for _ in range(BATCH)]

    return NullEnvs(envs.env)


def learning(envs: Any, frames: int) -> Work:
    """Return the work of learning from so many frames, on one thread."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    shown = envs.observation_space
    kind = "MultiInputPolicy" if isinstance(shown, gymnasium.spaces.Dict) else "MlpPolicy"
    return Work(lambda model: model.learn(frames), frames, lambda: PPO(kind, envs, **LEARNER))


def learner_row(action: str) -> None:
    """Register a row of learning."""

    @row(f"learner_{action}", unit="x", bar=MOST_OVER_NULL)
    def make(setting: Setting) -> Contest:
        frames = BATCH * LEARNER["n_steps"] * (1 if setting.quick else 2)
        envs = envs_of(action)
        return Contest(learning(envs, frames), learning(null_batch_like(envs), frames), NOTHING)

    about = f"A frame of SB3 PPO on a batch of {BATCH}, action {action}, over one on the same spaces doing nothing"
    make.__doc__ = about


for _action in CHOICES:
    learner_row(_action)


# --- Rows of what comes first, in seconds of the processor: a first result in a new process, and the compiler.

ROOT = Path(__file__).resolve().parent.parent
FIRST_BAR_S, COMPILING_BAR_S = 2.0, 60.0
FIRST = """
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named, windows
load = windows(named("{workload}"), "test", 1)[0]
run(baselines.make(baselines.load("{policy}")), load.episode())
"""


def fresh(workload: str, policy: str, cache: str | None = None) -> None:
    """Play a window in a new process; cache: the folder of what is compiled, the user's own if none is given."""
    where = os.environ | ({"XDG_CACHE_HOME": cache} if cache else {})
    program = FIRST.format(workload=workload, policy=policy)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(ended.stderr)


@row("first_result", unit="s", bar=FIRST_BAR_S)
def first_result(setting: Setting) -> Contest:
    """Play a window of philly by sjf in a new process, imports included, all of it compiled before."""
    return Contest(Work(lambda _: fresh("quick" if setting.quick else "philly", "sjf")))


def compiling_row(policy: str, workload: str) -> None:
    """Register a row of what it takes to compile a policy."""

    @row(f"compiling_{policy}", unit="s", bar=COMPILING_BAR_S)
    def make(setting: Setting) -> Contest:
        if setting.quick:
            raise SkippedError("compiling has no small case")

        def work(_: object) -> None:
            with tempfile.TemporaryDirectory() as cache:
                fresh(workload, policy, cache)

        return Contest(Work(work), warm=lambda: None)

    make.__doc__ = f"Play a window of {workload} by {policy} in a new process, with nothing compiled before"


compiling_row("sjf", "philly")
compiling_row("union", "mixed")
