"""Rows of the speed table: rankings, policies, environments, learning, startup. Importing the module registers them."""

import importlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from benchmarks import yardsticks
from benchmarks.timing import Comparison, SkippedError, Work, row
from benchmarks.yardsticks import NullBatch, NullEnv
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, JOB_TIERS
from gpu_cluster_gym.simulator.kernel.moves import beliefs
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows

# Rankings on full traces

RANKINGS = ("fifo", "sjf", "easy", "las", "srtf", "xion_threshold")
TRACE_TARGETS_S = {"fifo": 0.15, "sjf": 0.1, "easy": 0.2, "las": 0.2, "srtf": 0.3, "xion_threshold": 0.5}
TRACE_JOBS, MILLION_JOBS, POOL_JOBS = 117_000, 1_000_000, 4_000
QUICK_JOBS, SMALL_CLUSTER = 400, "8x8"  # quick cases all use the smallest record, which is compiled once
LOAD = 0.85
SPEED_PHYSICS = "memory,estimates,sharing,locality,cores,bandwidth,links"
TEXTBOOK: dict[str, Callable[[Sequence[yardsticks.Job], int], list[float]]] = {
    "fifo": yardsticks.fifo,
    "sjf": yardsticks.sjf,
    "srtf": yardsticks.srtf,
}


class Flow(NamedTuple):
    """Jobs of Philly's generator.

    jobs: number of jobs.
    physics: parts of physics, comma-separated.
    steady: whether jobs arrive uniformly at random, instead of in Philly's bursts, which cause long queues.
    load: GPU-seconds of run time over those of the cluster.
    cluster: name of the cluster.
    """

    jobs: int
    physics: str = "none"
    steady: bool = False
    load: float = LOAD
    cluster: str = "philly"


@cache
def workload(flow: Flow) -> Workload:
    """Return the workload of a flow of jobs."""
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
    """Return a policy that is a ranking."""
    made = baselines.make(baselines.load(policy))
    assert isinstance(made, Ranking), f"{policy} is not a ranking"
    return made


def simulation(load: Workload, policy: str, amount: float = 1.0) -> Work:
    """Return the work of simulating a workload."""
    return Work(partial(run, ranking(policy)), amount, load.episode)


def compiling(load: Workload, policy: str) -> Callable[[], object]:
    """Return a function that compiles the simulation: it runs the first jobs in a record of the same size."""
    count = next((size + 1 for size in reversed(JOB_TIERS) if size < len(load.jobs)), len(load.jobs))
    part = replace(load, jobs=load.jobs[:count])
    return lambda: run(ranking(policy), part.episode())


def textbook(load: Workload, policy: str) -> tuple[Work, str]:
    """Return a textbook simulation of the same jobs on a pool of the same number of GPUs, and its name."""
    rows = load.jobs[["submit_s", "num_gpus", "duration_s"]].tolist()
    gpus = load.cluster.num_gpus
    return Work(lambda _: TEXTBOOK[policy](rows, gpus), len(rows)), "textbook heapq loop on a pool"


def flow_workload(flow: Flow, *, quick: bool) -> Workload:
    """Return the workload of a flow of jobs, or a small one if `quick`."""
    return workload(flow._replace(jobs=QUICK_JOBS, cluster=SMALL_CLUSTER) if quick else flow)


def trace_row(policy: str, physics: str, steady: bool) -> None:
    """Register a row of a full trace."""
    arrivals = "at random instants" if steady else "in bursts"
    target = TRACE_TARGETS_S[policy] if physics == "none" else None

    @row(f"{policy}_{physics}_{'steady' if steady else 'philly'}", unit="s", target=target)
    def make(quick: bool) -> Comparison:
        load = flow_workload(Flow(TRACE_JOBS, physics, steady), quick=quick)
        return Comparison(simulation(load, policy), warm=compiling(load, policy))

    make.__doc__ = f"{TRACE_JOBS:,} Philly-like jobs on 2,490 GPUs, load {LOAD}, arriving {arrivals}"


def million_row(policy: str, target: float) -> None:
    """Register a row of a million jobs."""

    @row(f"{policy}_million", unit="s", target=target, large=True)
    def make(quick: bool) -> Comparison:
        """1,000,000 Philly-like jobs on 2,490 GPUs, load .85, arriving at random instants."""
        load = flow_workload(Flow(MILLION_JOBS, steady=True), quick=quick)
        return Comparison(simulation(load, policy), warm=compiling(load, policy))


def textbook_row(policy: str) -> None:
    """Register a row of jobs on a pool, with a textbook simulation as the yardstick."""

    @row(f"{policy}_pool", unit="us")
    def make(quick: bool) -> Comparison:
        """Time per job of 4,000 jobs on a pool, against a textbook loop."""
        load = flow_workload(Flow(POOL_JOBS, steady=True, cluster=SMALL_CLUSTER), quick=quick)
        load = replace(load, scenario=replace(load.scenario, placement="pooled"))
        theirs, name = textbook(load, policy)
        return Comparison(simulation(load, policy, len(load.jobs)), theirs, name)


def event_row(policy: str) -> None:
    """Register a row of the time per instant."""

    @row(f"{policy}_event", unit="us")
    def make(quick: bool) -> Comparison:
        """Time per instant of 4,000 Philly-like jobs on 8x8, load .85, usual physics."""
        load = flow_workload(Flow(POOL_JOBS, "exclusive", cluster=SMALL_CLUSTER), quick=quick)
        instants = int(run(ranking(policy), load.episode()).state.instant)
        return Comparison(simulation(load, policy, instants))


for _policy in RANKINGS:
    for _physics in ("none", "exclusive"):
        for _steady in (True, False):
            trace_row(_policy, _physics, _steady)
for _policy, _target in (("fifo", 1.0), ("srtf", 3.0)):
    million_row(_policy, _target)
for _policy in TEXTBOOK:
    textbook_row(_policy)
for _policy in ("fifo", "srtf", "xion_threshold"):
    event_row(_policy)


# Growth of the time per job


def one_gpu_jobs(queue: int, jobs: int, gpus: int) -> np.ndarray:
    """Return one-GPU jobs of ten minutes on average that arrive `queue` at a time, as fast as they finish."""
    made = np.zeros(jobs, JOB)
    rng = np.random.default_rng(0)
    made["num_gpus"] = 1
    made["duration_s"] = made["profiled_duration_s"] = rng.uniform(300, 900, jobs)
    made["predictable_from"] = 1.0
    made["submit_s"] = np.arange(jobs) // queue * (queue * 600.0 / gpus)
    return made


def growth(small: tuple[int, int, str], large: tuple[int, int, str]) -> Comparison:
    """Compare the time per job of a larger case (queue, jobs, cluster) with that of a smaller one."""

    def work(queue: int, jobs: int, machines: str) -> Work:
        made = cluster(machines)
        table = one_gpu_jobs(queue, jobs, made.num_gpus)
        return Work(partial(run, ranking("sjf")), jobs, lambda: Episode(table, made, exact=True))

    comparison = Comparison(work(*large), work(*small), "the smaller case")
    return comparison._replace(
        warm=lambda: [each.run(each.prepare()) for each in (work(*small), work(*large))]
    )


@row("growth_queue", unit="x", target=2.0)
def growth_with_queue(quick: bool) -> Comparison:
    """Time per job under sjf with 100,000 queued jobs, over that with 100, in the same record."""
    queue = QUICK_JOBS if quick else 100_000
    return growth((100, queue, "8x8"), (queue, queue, "8x8"))


@row("growth_gpus", unit="x")
def growth_with_gpus(quick: bool) -> Comparison:
    """Time per job under sjf on 8,192 GPUs, over that on 64."""
    jobs, large = (QUICK_JOBS, "32x8") if quick else (5_000, "1024x8")
    return growth((100, jobs, "8x8"), (100, jobs, large))


@row("growth_jobs", unit="x")
def growth_with_jobs(quick: bool) -> Comparison:
    """Time per job under sjf of 100,000 jobs, over that of 200."""
    jobs = QUICK_JOBS if quick else 100_000
    return growth((100, 200, "8x8"), (100, jobs, "8x8"))


def changing_speeds_row(name: str, load: float, target: float) -> None:
    """Register a row of jobs whose speed depends on other running jobs."""

    @row(name, unit="/s", target=target)
    def make(quick: bool) -> Comparison:
        made = flow_workload(Flow(POOL_JOBS, SPEED_PHYSICS, load=load, cluster=SMALL_CLUSTER), quick=quick)
        return Comparison(simulation(made, "fifo", 2.0 * len(made.jobs)))

    make.__doc__ = f"Starts and ends per second under fifo if speeds depend on other jobs, load {load}"


changing_speeds_row("changing_speeds_free", 0.4, 2e6)
changing_speeds_row("changing_speeds_full", 1.5, 1e6)


# Other policies, on windows and on a full trace

POLICIES = ("xonar", "xion", "coda", "aiturbo", "gavel", "lucid", "tiresias")
WINDOW_TARGET_S, UNION_TARGET_S, LONG_TRACE_TARGET_S = 0.1, 0.04, 60.0
TRACE = "trace"  # name of the long trace: Philly's generator on 64 GPUs
ROLLOUT_TARGET_S, ROLLOUTS = 0.002, 20
QUICK_WINDOW_JOBS = 60


@cache
def window(name: str, quick: bool) -> Workload:
    """Return the first test window of a workload, or its first jobs if `quick`."""
    if name == TRACE:
        jobs = QUICK_WINDOW_JOBS if quick else 80_000
        scenario = replace(named("philly_backlog"), jobs=jobs, all_windows=True, target_load=0.85)
        return windows(scenario, "train", 1)[0]
    load = windows(named(name), "test", 1)[0]
    if not quick:
        return load
    return load.__class__(load.table, load.jobs[:QUICK_WINDOW_JOBS], load.cluster, load.scenario, load.window)


def policy_row(policy: str, workload: str, target: float | None) -> None:
    """Register a row of a policy on a workload."""

    @row(f"{policy}_on_{workload}", unit="s", target=target, large=workload == TRACE)
    def make(quick: bool) -> Comparison:
        load = window(workload, quick)
        made = partial(baselines.make, baselines.load(policy))
        return Comparison(Work(lambda episode: run(made(), episode), prepare=load.episode))

    long_trace = "80,000 jobs of Philly's generator on 64 GPUs at a load of .85"
    make.__doc__ = long_trace if workload == TRACE else f"The first test window of {workload}"


for _policy in POLICIES:
    for _workload in ("mixed", "philly_backlog"):
        policy_row(_policy, _workload, WINDOW_TARGET_S)
    policy_row(_policy, TRACE, LONG_TRACE_TARGET_S)
policy_row("union", "mixed", UNION_TARGET_S)
policy_row("union", "philly_backlog", None)
policy_row("union", TRACE, None)


class Rollouts:
    """Buffers to continue a rule from copies of any state; reusable."""

    def __init__(self, states: np.ndarray, memory: np.ndarray, jobs: np.ndarray) -> None:
        """Allocate a record, a memory and jobs like these."""
        self.states, self.memory = states[:1].copy(), memory[:1].copy()
        self.jobs = jobs.copy()

    def copy(self, states: np.ndarray, e: int, memory: np.ndarray, k: int, jobs: np.ndarray) -> None:
        """Copy record e, memory k and the jobs."""
        self.states[0], self.memory[0] = states[e], memory[k]
        self.jobs[:] = jobs

    def sample_belief(self, seed: int) -> None:
        """Replace all unobservable values by a sampled belief (`kernel.moves.beliefs`), without further arrivals."""
        beliefs.sample(self.states, 0, self.memory, 0, self.jobs, seed)

    def run(self, until_s: float = np.inf) -> float:
        """Continue the rule to a time on the episode's clock, or to the end; return the job-seconds from here.

        Nothing more is done at the current instant: ask the rule before copying to begin with its own actions.
        """
        spent = float(self.states["present_seconds"][0])
        decide.run_until(self.states, 0, self.memory, 0, self.jobs, until_s)
        return float(self.states["present_seconds"][0]) - spent


@row("rollout_on_mixed", unit="s", target=ROLLOUT_TARGET_S)
def rollout(quick: bool) -> Comparison:
    """Rollout of the rule from the middle of a window of mixed to its end, with drawn run times and copying."""
    load = window("mixed", quick)
    episode = load.episode()
    memory = memory_of(Rule(), episode.states, episode.jobs, episode.histories)
    until = float(episode.jobs["submit_s"][len(episode.jobs) // 2])
    decide.run_until(episode.states, 0, memory, 0, episode.jobs, until)
    rollouts = Rollouts(episode.states, memory, episode.jobs)

    def work(_: object) -> None:
        for seed in range(ROLLOUTS):
            rollouts.copy(episode.states, 0, memory, 0, episode.jobs)
            rollouts.sample_belief(seed)
            rollouts.run()

    return Comparison(Work(work, ROLLOUTS))


# Environments

ENV_ID = "GPUCluster-v2"
STEP_TARGETS = {"plain": 60_000.0, "plain_by_agent": 200_000.0}  # steps per second
BATCH_TARGETS = {"plain": 300_000.0, "plain_by_agent": None, "moves": 30_000.0}
HINTS = {"action": "plain", "hints": True, "queue_slots": 16, "running_slots": 16, "min_run_s": 60.0}
ACTIONS: dict[str, dict[str, Any]] = {
    "plain": {**HINTS, "victims_by": "rule", "workload": "philly"},
    "plain_by_agent": {**HINTS, "placed_by": "agent", "victims_by": "agent", "workload": "philly"},
    "moves": {"action": "moves"},
}
"""Keywords of the environment, by action name in a row."""
BATCH_ENV_IDS = {"moves": "GPUCluster-mixed-v2"}  # exceptions from ENV_ID
NULL = "an empty environment with the same spaces"
BATCH, STEPS, QUICK_STEPS, NULL_EPISODE_STEPS = 64, 4_000, 100, 512


def environment(action: str) -> Any:
    """Return an environment from `gymnasium.make`."""
    importlib.import_module("gpu_cluster_gym")
    return gymnasium.make(ENV_ID, **ACTIONS[action], count=4, disable_env_checker=True)


def batch(action: str, count: int = BATCH) -> Any:
    """Return a vector environment from `gymnasium.make_vec`."""
    importlib.import_module("gpu_cluster_gym")
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    name = BATCH_ENV_IDS.get(action, ENV_ID)
    return gymnasium.make_vec(name, count, vectorization_mode=mode, **ACTIONS[action], count=4)


def steps(env: Any, count: int, mask: Callable[[], np.ndarray]) -> None:
    """Take `count` steps with the first legal action, which starts a job if possible."""
    env.reset(seed=0)
    for _ in range(count):
        _, _, terminated, truncated, _ = env.step(int(mask().argmax()))
        if terminated or truncated:
            env.reset()


def batch_steps(env: Any, count: int, mask: np.ndarray | None) -> None:
    """Take `count` steps of a batch with the first legal action, by `mask` or else by the environments' masks."""
    _, info = env.reset(seed=0)
    for _ in range(count):
        legal = info["action_mask"] if mask is None else mask
        _, _, _, _, info = env.step(legal.argmax(axis=1))


def null_env(env: Any) -> NullEnv:
    """Return an environment with the same spaces that does nothing."""
    observation, _ = env.reset(seed=0)
    actions = gymnasium.spaces.Discrete(env.action_space.n)
    return NullEnv(observation, actions, env.observation_space, NULL_EPISODE_STEPS)


def step_row(action: str) -> None:
    """Register a row of single steps."""

    @row(f"step_{action}", unit="/s", target=STEP_TARGETS[action])
    def make(quick: bool) -> Comparison:
        env = environment(action)
        null = null_env(env)
        mask = env.unwrapped.action_masks()
        count = QUICK_STEPS if quick else STEPS
        ours = Work(lambda _: steps(env, count, env.unwrapped.action_masks), count)
        theirs = Work(lambda _: steps(null, STEPS, lambda: mask), STEPS)
        return Comparison(ours, theirs, NULL)

    make.__doc__ = f"Steps through gymnasium.make, action {action}, including mask and observation"


def batch_row(action: str) -> None:
    """Register a row of steps of a batch."""

    @row(f"batch_{action}", unit="/s", target=BATCH_TARGETS[action])
    def make(quick: bool) -> Comparison:
        env = batch(action)
        observation, info = env.reset(seed=0)
        null = NullBatch(observation, BATCH)
        mask = np.array(info["action_mask"])
        count = QUICK_STEPS if quick else STEPS // 4
        ours = Work(lambda _: batch_steps(env, count, None), count * BATCH)
        return Comparison(ours, Work(lambda _: batch_steps(null, count, mask), count * BATCH), NULL)

    make.__doc__ = (
        f"Steps of {BATCH} environments through gymnasium.make_vec, action {action}, including everything"
    )


@row("growth_environments", unit="x")
def growth_with_environments(quick: bool) -> Comparison:
    """Time per environment step, action plain, in a batch of 512, over that in a batch of 64."""
    count = QUICK_STEPS if quick else STEPS // 4

    def work(environments: int) -> Work:
        env = batch("plain", environments)
        repeats = count * BATCH // environments
        return Work(lambda _: batch_steps(env, repeats, None), repeats * environments)

    return Comparison(work(8 * BATCH), work(BATCH), "the smaller batch")


for _action in STEP_TARGETS:
    step_row(_action)
for _action in BATCH_TARGETS:
    batch_row(_action)


# Learning: PPO of Stable-Baselines3

PPO_OPTIONS: dict[str, Any] = {"n_steps": 64, "batch_size": 1024, "n_epochs": 4, "device": "cpu", "seed": 0}
MAX_OVER_NULL = 1.25  # 0.8 of the frames per second
LEARNER_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {**HINTS, "victims_by": "rule", "workload": "philly"},
    "moves": {"illegal": "first_legal"},
}


def learner_envs(action: str) -> Any:
    """Return a batch of environments in the form that Stable-Baselines3 reads."""
    importlib.import_module("gpu_cluster_gym")
    from gpu_cluster_gym.agents.vec_env import ClusterVecEnv

    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    chosen = {"action": action, "count": 4, "autoreset": "Disabled", **LEARNER_OPTIONS[action]}
    name = BATCH_ENV_IDS.get(action, ENV_ID)
    env: Any = gymnasium.make_vec(name, BATCH, vectorization_mode=mode, **chosen)
    return ClusterVecEnv(env)


def null_learner_envs(envs: Any) -> Any:
    """Return a batch with the same spaces that does nothing: constant observations, and episodes that never end."""
    observation = envs.reset()
    nothing = np.zeros(BATCH, np.float32), np.zeros(BATCH, bool)

    class NullEnvs(type(envs)):  # type: ignore[misc]
        """Vector environment that repeats the first observation."""

        def reset(self) -> Any:
            """Start the episodes."""
            return observation

        def step_wait(self) -> Any:
            """Take the step."""
            return observation, *nothing, [{} for _ in range(BATCH)]

    return NullEnvs(envs.env)


def learning(envs: Any, frames: int) -> Work:
    """Return the work of learning from `frames` frames on one thread."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    is_dict = isinstance(envs.observation_space, gymnasium.spaces.Dict)
    policy = "MultiInputPolicy" if is_dict else "MlpPolicy"

    def learn(model: PPO) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".*a legal action replaces it", UserWarning
            )  # PPO knows no masks
            model.learn(frames)

    return Work(learn, frames, lambda: PPO(policy, envs, **PPO_OPTIONS))


def learner_row(action: str) -> None:
    """Register a row of learning."""

    @row(f"learner_{action}", unit="x", target=MAX_OVER_NULL)
    def make(quick: bool) -> Comparison:
        frames = BATCH * PPO_OPTIONS["n_steps"] * (1 if quick else 2)
        envs = learner_envs(action)
        return Comparison(learning(envs, frames), learning(null_learner_envs(envs), frames), NULL)

    make.__doc__ = f"Time per frame of SB3 PPO on a batch of {BATCH}, action {action}, over that on {NULL}"


for _action in LEARNER_OPTIONS:
    learner_row(_action)


# Startup: the first result in a new process, and compilation

ROOT = Path(__file__).resolve().parent.parent
FIRST_RESULT_TARGET_S, COMPILING_TARGET_S = 2.0, 60.0
PROGRAM = """
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named, windows
load = windows(named("{workload}"), "test", 1)[0]
run(baselines.make(baselines.load("{policy}")), load.episode())
"""


def new_process(workload: str, policy: str, cache: str | None = None) -> None:
    """Simulate a window in a new process; `cache` is the folder of compiled code, by default the user's."""
    environment = os.environ | ({"XDG_CACHE_HOME": cache} if cache else {})
    command = [sys.executable, "-c", PROGRAM.format(workload=workload, policy=policy)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


@row("first_result", unit="s", target=FIRST_RESULT_TARGET_S)
def first_result(quick: bool) -> Comparison:
    """Simulate sjf on a window of philly_backlog in a new process, including imports, with compiled code cached."""
    return Comparison(Work(lambda _: new_process("quick" if quick else "philly_backlog", "sjf")))


def compiling_row(policy: str, workload: str) -> None:
    """Register a row of the time to compile a policy."""

    @row(f"compiling_{policy}", unit="s", target=COMPILING_TARGET_S)
    def make(quick: bool) -> Comparison:
        if quick:
            raise SkippedError("compilation has no small case")

        def work(_: object) -> None:
            with tempfile.TemporaryDirectory() as cache:
                new_process(workload, policy, cache)

        return Comparison(Work(work), warm=lambda: None)

    make.__doc__ = (
        f"Simulate {policy} on a window of {workload} in a new process, with an empty cache of compiled code"
    )


compiling_row("sjf", "philly_backlog")
compiling_row("union", "mixed")
