"""Rows of policies that are more than an order, over a window of two workloads, and a whole trace."""

from dataclasses import replace
from functools import cache, partial

from benchmarks.timing import Contest, Setting, Work, row
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.rule_policy import Rollouts, Rule, memory_of
from gpu_cluster_gym.workloads import Workload, named, windows

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
