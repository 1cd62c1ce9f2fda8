"""AITurbo: resize predictable jobs, and place parameter servers on CPU cores (Zhao et al., HPDC 2021).

Claim: mean JCT is 3 times shorter than the state of the art's. The abstract does not state which policy that is: tested
here against Tiresias handicapped as in a later prototype of the same lab, where each of its parameter servers takes a
GPU and each of AITurbo's five CPU cores; against Tiresias with servers on cores; and against Optimus.

Inferred: the mechanism, partly from that prototype (see baselines/aiturbo.py), and the workload. 120 jobs with
one or two servers arrive one by one at 16 GPUs; 45 % are predictable from the start, 40 % become predictable while they
run, 15 % never; a restart takes a minute. The load of 0.7 counts the requested workers; with servers on GPUs it is
1.03, so the handicapped baseline is overloaded: its queue grows as long as jobs arrive, and the factor with the number
of jobs. At a load of 0.4, offered 0.60, the factor levels off from 240 jobs on, at 0.5, offered 0.75, from about 500.
The claim is therefore tested at these loads with 960 jobs; another table has the factor by number of jobs. Further
workloads have arrivals as bursty as Philly's, and a burst of jobs like that lab's sixty. In the prototype AITurbo's
feedback queues have no effect, since the points that decide on the queue also order the jobs within it; a setting with
arrival order within queues is shown too. Missing: a model that decides from progress whether a job is predictable; a
column of the trace says when it is.

Inferred for the laboratory's jobs: they are fitted to the jobs that the prototype submits
(github.com/MaoZzzzz/Aiturbo-vGPU, sixty in 212 s; none of its rows is kept): shares of networks with their batch sizes,
shares of servers and workers, lognormal steps with median 458 (sigma 0.91), 24 of 60 become predictable at 9 to 89 % of
their run, up to 4 workers and 10 servers. The cluster is theirs, two nodes of two GPUs and 32 cores. The time of a step
follows the simulator's formula: a network of `models.csv` on an RTX 2080 Ti, which has the 11 GB of theirs, with the
batch divided among workers, and its exchange through servers over the network. The network's speed is not stated: at
1 Gb/s jobs run for 70 minutes on average in the requested shape, where the lab's plots have 80 to 180; at 10 Gb/s, 10.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.evaluation.plot.style import BLUE, GREEN, GREY, ORANGE, RED
from gpu_cluster_gym.experiments import _output
from gpu_cluster_gym.experiments._output import Look, share, times
from gpu_cluster_gym.experiments._paper import Claim, Paper
from gpu_cluster_gym.experiments._trials import (
    Outcome,
    Setting,
    change_trials,
    default_policies,
    sample_trials,
)
from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.speed_model import fit, seconds
from gpu_cluster_gym.traces import ERRORS, WORKER_CORES
from gpu_cluster_gym.workloads import Window, Workload, filled, named, prepare, seed_of_jobs
from gpu_cluster_gym.workloads import aiturbo_ps as trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.evaluation.table import ResultTable


HEADLINE = 3.0
LOADS = (0.4, 0.5, 0.7, 0.9)
STABLE_LOADS = (0.4, 0.5)  # of workers, at which the factor over the handicapped baseline levels off
HORIZONS = (60, 120, 240, 480, 960)  # numbers of jobs
HORIZON_LOADS = (0.3, *STABLE_LOADS, trace.LOAD)
TRIALS = 40
FEWER = 3  # factor by which settings with other workloads have fewer trials
FITTED = 4  # trials on whose jobs the speed model is evaluated

AITURBO, BASELINE, TIRESIAS = "aiturbo", "tiresias, handicapped", "tiresias"
OPTIMUS, WRONG_OPTIMUS = "optimus", "optimus, errors of 3 times"
NO_BORDA, RIGID, NO_CPU, ON_GPUS, ALL, QUEUES = (
    f"aiturbo, {what}"
    for what in ("no Borda", "no elasticity", "no CPU workers", "servers on GPUs", "all resized", "queues")
)
COMPARED = ("fifo", "las", "srtf", OPTIMUS, WRONG_OPTIMUS, TIRESIAS, BASELINE, AITURBO)
FREE, BURSTY = "free exchange", "arrivals as bursty as Philly's"
FEW_POLICIES = ("fifo", "srtf", OPTIMUS, TIRESIAS, BASELINE)  # on other workloads
LAB_POLICIES = {
    "fifo_strict": "fifo_strict",
    "fifo": "",
    "srtf": "srtf",
    OPTIMUS: "optimus",
    TIRESIAS: "",
    BASELINE: "tiresias",
    AITURBO: "",
    ALL: "",
}
"""Policies on the laboratory's jobs, and the name of each in the lab's plots, if any."""
ROUNDS_S = {"fifo_strict": 0.0, "srtf": 120.0, OPTIMUS: 300.0, BASELINE: 240.0, AITURBO: 240.0}
"""Seconds between rounds in the lab's prototype, each of which restarts all running jobs; 0 for no rounds."""


def at(load: float) -> str:
    """Return the name of the setting with this load."""
    return f"load {load:g}"


def horizon(load: float, jobs: int) -> str:
    """Return the name of the setting with this load and number of jobs."""
    return f"load {load:g}, {jobs} jobs"


USUAL = at(trace.LOAD)
USED = (("gpu_allocated_share", "GPUs\nalloc.", "{:.0%}"), ("cpu_utilisation", "cores\nalloc.", "{:.0%}"))


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the default load with ablations of AITurbo, other loads, bursts, other workloads, and the lab's jobs."""
    loads = sample_trials("aiturbo_ps", trials, seed)
    policies = default_policies("fifo", "las", "srtf") | {
        OPTIMUS: Optimus,
        WRONG_OPTIMUS: partial(Optimus, error=log(3)),
        TIRESIAS: Tiresias,
        BASELINE: partial(Tiresias, servers_on_gpus=True),
        AITURBO: Aiturbo,
    }
    parts = {
        NO_BORDA: partial(Aiturbo, borda=False),
        RIGID: partial(Aiturbo, elastic=False),
        NO_CPU: partial(Aiturbo, cpu_workers=False),
        ON_GPUS: partial(Aiturbo, servers_on_gpus=True),
        ALL: partial(Aiturbo, predictable="all"),
        QUEUES: partial(Aiturbo, queues=True),
    }
    others = [load for load in LOADS if load != trace.LOAD]
    few = loads[: max(8, trials // FEWER)]
    some = {name: policies[name] for name in (*FEW_POLICIES, AITURBO)}
    pair = {name: policies[name] for name in (BASELINE, TIRESIAS, AITURBO)}
    burst = default_policies("fifo_strict") | policies | {ALL: parts[ALL]}
    burst = {name: burst[name] for name in LAB_POLICIES}
    return [
        Setting(USUAL, loads, policies | parts),
        *(
            Setting(at(load), change_trials(loads, partial(trace.with_load, load=load)), some)
            for load in others
        ),
        *(
            Setting(
                horizon(load, jobs),
                change_trials(
                    sample_trials("aiturbo_ps", max(8, trials // 2), seed, jobs=jobs),
                    partial(trace.with_load, load=load),
                ),
                pair,
            )
            for jobs in HORIZONS
            for load in HORIZON_LOADS
        ),
        Setting(BURSTY, [as_bursty_as_philly(load) for load in loads], some),
        *(Setting(name, change_trials(few, change), some) for name, change in CHANGES.items()),
        *lab_settings(loads, burst, ROUNDS_S),
    ]


def as_bursty_as_philly(load: Workload) -> Workload:
    """Return the same jobs with submission times of Philly's generator, scaled to the same span and load."""
    seed = traces.seed_from(seed_of_jobs(load.scenario, load.window), "bursts")
    times = traces.load("philly", seed=seed, jobs=len(load.table))["submit_s"].to_numpy()
    span_s = load.table["submit_s"].iloc[-1]
    submit_s = (times - times[0]) * span_s / (times[-1] - times[0])
    return prepare(load.table.assign(submit_s=submit_s), load.scenario, window=load.window)


def _at_most_four(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(max_workers=np.maximum(table["num_gpus"], 4))


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "all predictable": trace.all_predictable,
    "none predictable": trace.none_predictable,
    "free restarts": partial(trace.with_restart, mean_s=0.0),
    "restarts of 250 s": partial(trace.with_restart, mean_s=250.0),
    "one server each": partial(pd.DataFrame.assign, servers=1),
    "two servers each": partial(pd.DataFrame.assign, servers=2),
    FREE: partial(pd.DataFrame.assign, sync_gb=0.0),
    "four workers at most": _at_most_four,
}
"""Variants of the workload, by name; a restart of 250 s is resnet50's in models.csv."""


def tables(outcome: Outcome) -> "list[ResultTable]":
    """Return tables of the default load, other loads and workloads, the lab's jobs, and the speed model's error."""
    numbers = (
        *_output.TIMES,
        ("preemptions", "preemp-\ntions", "{:,.1f}"),
        ("resizes", "moves", "{:,.1f}"),
        *USED,
    )
    title = f"Default case: load {trace.LOAD:g}"
    few = outcome.counts()[next(iter(CHANGES))]
    return [
        _output.comparison(title, outcome, USUAL, AITURBO, numbers=numbers),
        _times(
            f"Mean JCT / AITurbo's by load ({outcome.counts()[USUAL]} trials); below, the load that handicapped "
            "Tiresias is offered",
            outcome,
            [at(load) for load in LOADS],
        ),
        _horizons(outcome),
        _times(
            f"Mean JCT / AITurbo's in other workloads ({few} trials, bursts: all)",
            outcome,
            [BURSTY, *CHANGES],
        ),
        lab_table(outcome),
        _fit(outcome),
    ]


def times_as_long(outcome: Outcome, setting: str, policy: str) -> Estimate:
    """Return the ratio of a policy's mean JCT to AITurbo's."""
    return outcome.ratio((setting, policy), (setting, AITURBO))


def _times(title: str, outcome: Outcome, settings: Sequence[str]) -> "ResultTable":
    rows = [[name, *(_factor(outcome, name, policy) for policy in FEW_POLICIES)] for name in settings]
    return _output.grid(title, ["", *(policy.replace(", ", ",\n") for policy in FEW_POLICIES)], rows)


def _factor(outcome: Outcome, setting: str, policy: str) -> str:
    """Return a policy's mean JCT over AITurbo's, and the load that it is offered if its servers take GPUs."""
    lines = _output.texts(times_as_long(outcome, setting, policy), "{:.2f}")
    own = (f"at {offered(outcome, setting, servers=True):.2f}",) if policy == BASELINE else ()
    return "\n".join((*lines, *own))


def _horizons(outcome: Outcome) -> "ResultTable":
    """Return factors by number of jobs, each with the load that the baseline is offered."""
    columns = [*((BASELINE, load) for load in HORIZON_LOADS), (TIRESIAS, trace.LOAD)]
    rows = []
    for jobs in HORIZONS:
        row = [str(jobs)]
        for policy, load in columns:
            place = horizon(load, jobs)
            own = f"at {offered(outcome, place, servers=policy == BASELINE):.2f}"
            row.append("\n".join((*_output.texts(times_as_long(outcome, place, policy), "{:.2f}"), own)))
        rows.append(row)
    headings = [f"{policy},\nload {load:g}" for policy, load in columns]
    trials = outcome.counts()[horizon(trace.LOAD, HORIZONS[0])]
    title = (
        f"Mean JCT / AITurbo's by number of jobs, and the load that the baseline is offered ({trials} trials)"
    )
    return _output.grid(title, ["jobs", *headings], rows)


def offered(outcome: Outcome, setting: str, *, servers: bool) -> float:
    """Return the offered load of a setting's GPUs, the mean over trials: requested GPUs x run time over the arrivals.

    servers: whether each parameter server takes a GPU too.
    """
    seed = int(outcome.summaries[USUAL, AITURBO]["seed"].iloc[0])
    found = []
    for load in workloads_of(outcome.counts()[USUAL], seed)[setting]:
        table = load.table
        gpus = table["num_gpus"] + (table["servers"] if servers else 0)
        span_s = table["submit_s"].max() - table["submit_s"].min()
        found.append(float((gpus * table["duration_s"]).sum() / (load.cluster.num_gpus * span_s)))
    return float(np.mean(found))


@cache
def workloads_of(trials: int, seed: int) -> dict[str, Sequence[Workload]]:
    """Return the workloads of each setting, with which the loads are computed."""
    return {setting.name: setting.workloads for setting in settings(trials, seed)}


def _fit(outcome: Outcome) -> "ResultTable":
    """Return the error of AITurbo's speed model by network, for profiled shapes and for others."""
    errors = fit_errors(outcome)
    kinds = {"profiled": "profiled\nshapes", "others": "other\nshapes", "on_cpu": "on\ncores"}
    rows = []
    for name, jobs in [*errors.groupby("model"), ("all", errors)]:
        means = [_output.texts(estimate(jobs[kind]), "{:.1%}")[0] for kind in kinds]
        worst = _output.texts(estimate([jobs["worst"].max()]), "{:.0%}")[0]
        rows.append([name, *means, worst, f"{jobs['min_ms'].min():.0f}"])
    title = f"Error of AITurbo's speed model as a share of an iteration, {len(errors)} jobs"
    return _output.grid(title, ["model", *kinds.values(), "worst", "min.,\nms"], rows)


def fit_errors(outcome: Outcome) -> pd.DataFrame:
    """Return the errors of the speed model for each job of the first trials; see `errors_of_fit`."""
    seed = int(outcome.summaries[USUAL, AITURBO]["seed"].iloc[0])
    loads = sample_trials("aiturbo_ps", FITTED, seed)
    return pd.DataFrame([row for load in loads for row in errors_of_fit(load)])


def errors_of_fit(load: Workload) -> Iterator[dict[str, str | float]]:
    """Yield the relative error of the speed model's iteration time, averaged over shapes, for each job of a trial.

    profiled: shapes on GPUs that were profiled. others: all other shapes on GPUs. on_cpu: all shapes on CPU cores.
    worst: maximum over all shapes. min_ms: shortest predicted iteration.
    """
    episode = load.episode()
    shapes = np.array(list(product(range(1, trace.MAX_WORKERS + 1), range(1, MAX_SERVERS + 1), (0, 1))))
    on_cpu, source = shapes[:, 2] == 1, source_of(episode.view)
    for job, model in enumerate(load.table["model"]):
        profile = measurements.profiled(source.states, source.jobs, job)
        predicted = seconds(fit(profile), *shapes.T)
        truth = np.empty(len(shapes))
        calls.iterations(episode.states, 0, episode.jobs, job, shapes, truth)
        error = np.abs(predicted / truth - 1)
        known = (shapes[:, None] == profile[None, :, :3]).all(axis=2).any(axis=1)
        yield {
            "model": model,
            "profiled": error[known & ~on_cpu].mean(),
            "others": error[~known & ~on_cpu].mean(),
            "on_cpu": error[on_cpu].mean(),
            "worst": error.max(),
            "min_ms": 1000 * predicted.min(),
        }


BASELINES = {BASELINE: "Tiresias handicapped by servers on GPUs", TIRESIAS: "Tiresias", OPTIMUS: "Optimus"}


def claims(outcome: Outcome) -> list[Claim]:
    """Return the abstract's claim against baselines that are not overloaded, each with the load that it is offered."""
    cases = [(horizon(load, HORIZONS[-1]), BASELINE) for load in STABLE_LOADS]
    cases += [(USUAL, TIRESIAS), (USUAL, OPTIMUS)]
    found = [_beaten(outcome, *case) for case in cases]
    return [*found, _beaten(outcome, lab("1 Gb/s"), BASELINE, "sixty at once")]


def _beaten(outcome: Outcome, setting: str, policy: str, load: str = "") -> Claim:
    where = load or f"offered load {offered(outcome, setting, servers=policy == BASELINE):.2f}"
    claim = f"The mean JCT of {BASELINES[policy]} is at least 3 times AITurbo's ({setting}; {where})."
    return Claim(claim, times_as_long(outcome, setting, policy), "at least", paper=HEADLINE)


def remarks(outcome: Outcome) -> list[str]:
    """Return sentences on the gain from server placement and from scheduling, and on AITurbo's parts."""
    place = times(outcome.ratio((USUAL, BASELINE), (USUAL, TIRESIAS)))
    rest = times(times_as_long(outcome, USUAL, TIRESIAS))
    parts = {NO_BORDA: "Borda counts", RIGID: "elasticity", NO_CPU: "workers on CPU cores"}
    parts |= {ON_GPUS: "cores for servers"}
    without = [f"{times(times_as_long(outcome, USUAL, name))} without {part}" for name, part in parts.items()]
    all_resized = times(times_as_long(outcome, USUAL, ALL))
    each = {name: times_as_long(outcome, USUAL, name) for name in COMPARED[:-1]}
    shorter = [f"{name}, {times(ratio)}" for name, ratio in each.items() if ratio.mean < 1]
    errors = fit_errors(outcome)
    profiled, others = (share(estimate(errors[kind])) for kind in ("profiled", "others"))
    overloaded = {jobs: times_as_long(outcome, horizon(trace.LOAD, jobs), BASELINE).mean for jobs in HORIZONS}
    grown = ", ".join(f"{factor:.1f} with {jobs} jobs" for jobs, factor in overloaded.items())
    queues = times(times_as_long(outcome, USUAL, QUEUES))
    free, free_rest = (times(times_as_long(outcome, FREE, name)) for name in (BASELINE, TIRESIAS))
    return [
        f"At load {trace.LOAD:g} handicapped Tiresias' mean JCT is {place} that of Tiresias with servers on cores, "
        f"which is {rest} AITurbo's: the first factor is server placement, the second all else.",
        "With free exchange, where w workers are w / (1 + a (w - 1)) times as fast as one, handicapped Tiresias' is "
        f"{free} AITurbo's, and {free_rest} with servers on cores: the rest comes from users who request servers that "
        "suit a model badly.",
        f"Handicapped Tiresias is offered {offered(outcome, USUAL, servers=True):.2f} there, more than it can do, so "
        f"its mean JCT over AITurbo's grows with the horizon: {grown}. That factor supports no claim.",
        f"With feedback queues by arrival AITurbo's mean JCT is {queues} as long.",
        f"AITurbo's mean JCT becomes {', '.join(without)}, and {all_resized} if it treats all jobs as predictable; if "
        "it treats no job as predictable, it resizes none.",
        f"Policies with a shorter mean JCT than AITurbo's there: {'; '.join(shorter) or 'none'}.",
        f"The speed model's error is {profiled} of an iteration in the profiled shapes, whose measurements have an "
        f"error of 5 %, and {others} in other shapes; its shortest predicted iteration takes "
        f"{errors['min_ms'].min():.0f} ms.",
        lab_remark(outcome),
    ]


LOOKS = {
    "fifo": Look("FIFO", GREY, width=1.2),
    "srtf": Look("SRTF", GREEN, "--", 1.2),
    OPTIMUS: Look("Optimus", ORANGE),
    TIRESIAS: Look("Tiresias (cores)", RED, "--", 1.2),
    BASELINE: Look("Tiresias,\nhandicapped", RED, width=2.6),
}
ROWS = {
    NO_BORDA: "no Borda",
    NO_CPU: "no CPU workers",
    RIGID: "no elasticity",
    ON_GPUS: "servers on GPUs",
    ALL: "all resized",
    QUEUES: "queues",
}


def figure(outcome: Outcome) -> "Figure":
    """Draw mean JCTs over AITurbo's: by load, in other workloads, and for ablations of AITurbo."""
    drawing, (loads, others, parts) = _output.one_and_two()
    lines = {name: [times_as_long(outcome, at(load), name) for load in LOADS] for name in LOOKS}
    _output.curves(loads, LOADS, lines, LOOKS)
    _output.level(loads, HEADLINE, "paper: 3 times", LOADS[2])
    _output.level(loads, 1, "AITurbo", LOADS[0] + 0.01)
    _output.dots(parts, {text: times_as_long(outcome, USUAL, name) for name, text in ROWS.items()}, BLUE)
    changes = {name: times_as_long(outcome, name, BASELINE) for name in CHANGES}
    _output.dots(others, changes, LOOKS[BASELINE].colour)
    _output.mark(others, HEADLINE, "paper: 3", beyond=True)
    parts.axvline(1, color=GREY, linewidth=0.8)
    loads.set_xticks(LOADS)
    loads.set_xlabel("Offered load")
    loads.set_title("Mean job completion time / AITurbo's, by load\n(Tiresias: servers on GPUs or on cores)")
    others.set_title("Tiresias (GPUs) / AITurbo,\nother workloads")
    parts.set_title("AITurbo variants /\nAITurbo")
    _output.caption(drawing, outcome.counts()[USUAL])
    return drawing


# The laboratory's jobs.

LAB_CLUSTER = "2x2-32c"
LAB_JOBS, LAB_BURST_S = 60, 212.0
LAB_NETWORKS = {  # network and batch size over all workers: number of the sixty jobs
    ("alexnet", 1024): 6,
    ("googlenet", 256): 8,
    ("inception_v3", 64): 7,
    ("inception_v4", 32): 7,
    ("resnet50", 64): 5,
    ("resnet101", 64): 6,
    ("resnet152", 32): 5,
    ("vgg11", 128): 6,
    ("vgg16", 64): 5,
    ("vgg19", 32): 5,
}
LAB_SHAPES = {(1, 2): 28, (2, 1): 20, (2, 2): 12}  # servers and workers: number of jobs
LAB_STEPS, LAB_STEPS_SIGMA = 458.0, 0.91  # median and sigma of a lognormal
LAB_TURNING = 0.4  # share of jobs that become predictable while they run
LAB_TURNS_AT = (0.09, 0.89)  # range of the share of the run after which they do
LAB_MAX_WORKERS = 4
NETWORK_SPEEDS_GBS = {"1 Gb/s": 0.125, "10 Gb/s": 1.25}
SLOWER_NETWORK = "1 Gb/s"
RUN_TIMES = ("duration_s", "profiled_duration_s", "predicted_duration_s")
PLOTTED = {"fifo_strict": 3.39, "srtf": 1.53, "optimus": 1.45, "tiresias": 2.26}
"""Mean JCT over AITurbo's in that laboratory's plotting scripts, which contain hard-coded values."""


def lab(network: str) -> str:
    """Return the name of the setting with this network speed."""
    return f"laboratory jobs, {network}"


def restarting(policy: str) -> str:
    """Return the name of the setting in which each round of a policy restarts all jobs, on the slower network."""
    return f"{lab(SLOWER_NETWORK)}, all restarted in each round of {policy}"


def lab_settings(
    loads: list[Workload], policies: Mapping[str, "Maker"], rounds_s: Mapping[str, float]
) -> list[Setting]:
    """Return a burst per trial on either network, and bursts in which each round restarts all jobs.

    loads: trials that give the seeds. policies: the policies to run. rounds_s: seconds between rounds of the
    prototype's policies, each of which deletes and restarts all running jobs; run times are longer by the loss.
    """
    windows = [(load.window, seed_of_jobs(load.scenario, load.window)) for load in loads]
    bursts = [
        Setting(lab(network), [lab_workload(window, seed, gbs) for window, seed in windows], policies)
        for network, gbs in NETWORK_SPEEDS_GBS.items()
    ]
    for policy, every_s in rounds_s.items():
        longer = partial(_with_longer_runs, factor=every_s / (every_s - trace.RESTART_S) if every_s else 1.0)
        bursts.append(
            Setting(
                restarting(policy), change_trials(bursts[0].workloads, longer), {policy: policies[policy]}
            )
        )
    return bursts


def _with_longer_runs(table: pd.DataFrame, factor: float) -> pd.DataFrame:
    return table.assign(**{name: factor * table[name] for name in RUN_TIMES})


def lab_workload(window: Window, seed: int, network_gbs: float) -> Workload:
    """Return sixty jobs sampled with a seed, whose workers and servers exchange over a network of this speed."""
    scenario = replace(named("aiturbo_ps"), cluster=LAB_CLUSTER)
    table = traces.check(_with_lab_estimates(_lab_jobs(seed, network_gbs), seed))
    return prepare(filled(table, scenario, seed=seed), scenario, window=window)


def _lab_jobs(seed: int, network_gbs: float) -> pd.DataFrame:
    rng = traces.stream(seed, "aiturbo lab")
    kinds, shapes = np.array(list(LAB_NETWORKS), object), np.array(list(LAB_SHAPES))
    model, batch = kinds[rng.choice(len(kinds), LAB_JOBS, p=_proportions(LAB_NETWORKS))].T
    servers, workers = shapes[rng.choice(len(shapes), LAB_JOBS, p=_proportions(LAB_SHAPES))].T
    steps = rng.lognormal(np.log(LAB_STEPS), LAB_STEPS_SIGMA, LAB_JOBS)
    profile = traces.models().loc[list(model)]
    alpha_s = profile["alpha_s"].to_numpy()
    batch_s = (
        batch.astype(float) * (profile["beta_s_per_sample_V100_fp32"] / profile["speed_RTX2080Ti"]).to_numpy()
    )
    exchanged_gb = profile["sync_MB"].to_numpy() / 1000
    # fixed part, a worker's share of the batch, and sending and receiving through the servers
    step_s = alpha_s + batch_s / workers + 2 * exchanged_gb * workers / servers / network_gbs
    columns = {
        "job_id": [f"lab-{row}" for row in range(LAB_JOBS)],
        "submit_s": np.sort(rng.random(LAB_JOBS)) * LAB_BURST_S,
        "num_gpus": workers,
        "duration_s": steps * step_s,
        "model": model,
        "cpu_cores": WORKER_CORES * workers,
        "pause_s": trace.PAUSE_SHARE * trace.RESTART_S,
        "load_s": (1 - trace.PAUSE_SHARE) * trace.RESTART_S,
        "servers": servers,
        "min_workers": 1,
        "max_workers": LAB_MAX_WORKERS,
        "scaling_loss": alpha_s / (alpha_s + batch_s),
        "cpu_slowdown": [trace.CPU_SLOWDOWN.get(name, 0.0) for name in model],  # 0: cannot run on cores
        "active_ms": 1000 * (alpha_s + batch_s / workers),
        "idle_ms": 0.0,
        # scaled so that the simulated, faster network takes as long
        "sync_gb": exchanged_gb * cluster(LAB_CLUSTER).inter_gbs / network_gbs,
        "gpu_memory_gib": 8.0,  # no effect: GPUs are not shared
    }
    return pd.DataFrame(columns)


def _proportions(counts: Mapping[Any, int]) -> list[float]:
    return [count / sum(counts.values()) for count in counts.values()]


def _with_lab_estimates(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    rng = traces.stream(seed, "aiturbo lab estimates")
    turns = np.where(rng.random(LAB_JOBS) < LAB_TURNING, rng.uniform(*LAB_TURNS_AT, LAB_JOBS), 1.0)
    good, bad = (table["duration_s"] * np.exp(error * rng.standard_normal(LAB_JOBS)) for error in ERRORS)
    return table.assign(predictable_from=turns, profiled_duration_s=bad, predicted_duration_s=good)


def lab_table(outcome: Outcome) -> "ResultTable":
    """Return mean JCTs over AITurbo's on either network and as plotted."""
    rows = []
    for policy, plotted in LAB_POLICIES.items():
        row = [policy, f"{PLOTTED[plotted]:.2f}" if plotted else ""]
        pairs = [((lab(network), policy), (lab(network), AITURBO)) for network in NETWORK_SPEEDS_GBS]
        if (restarting(policy), policy) in outcome.summaries:
            pairs.append(((restarting(policy), policy), (restarting(AITURBO), AITURBO)))
        each = [" ".join(_output.texts(outcome.ratio(*pair), "{:.2f}")) for pair in pairs]
        rows.append([*row, *each, *[""] * (len(NETWORK_SPEEDS_GBS) + 1 - len(each))])
    trials = outcome.counts()[lab(SLOWER_NETWORK)]
    headings = ["policy", "plotted", *NETWORK_SPEEDS_GBS, f"{SLOWER_NETWORK}, each round\nrestarts all jobs"]
    return _output.grid(f"Laboratory jobs: mean JCT / AITurbo's ({trials} trials)", headings, rows)


def lab_remark(outcome: Outcome) -> str:
    """Return a paragraph on the differences between the laboratory's plots and these jobs."""
    names = ("mean_jct_s", "mean_idle_s", "mean_wait_s")
    jct, idle, wait = (outcome.mean((lab(SLOWER_NETWORK), AITURBO), name).mean / 60 for name in names)
    return (
        "The laboratory plots 80 minutes of training and 30 of queueing for AITurbo. Sixty jobs on four whole GPUs "
        f"cannot have both: with {jct - idle:.0f} minutes of training they queue for {wait:.0f} here, since the last "
        "arrives after 212 s. So the plots show another cluster, later arrivals, or shared GPUs. AITurbo treats 60 % "
        "of these jobs as unpredictable and does not resize them, from which Optimus benefits. That each round "
        "restarts all jobs, most often under SRTF, explains part of SRTF's place in the plots."
    )


paper = Paper(
    about=__doc__,
    trials=TRIALS,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
