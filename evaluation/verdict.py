"""The verdict on a log: how a policy's waits differ from those of the log's own scheduler, and whether that is certain.

The log's own scheduler is simulated too, so that both waits have the same simplifications. It is the candidate of
`CANDIDATES` whose starts are nearest to the logged ones, and the distance of its mean wait from the logged one is the
simulator's own error on this log. A difference that is smaller than this error gives no verdict.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import percentile_limits
from gpu_cluster_gym.evaluation.describe import duration, gpus_held
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS
from gpu_cluster_gym.simulator import results
from gpu_cluster_gym.traces import OVER_LIMIT, stream
from gpu_cluster_gym.workloads import TENANT_COLUMNS

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Scenario, Workload

Floats = NDArray[np.float64]

CANDIDATES = ("fifo_strict", "easy", "fifo")
"""Policies that may stand in for the log's own scheduler; the first of equally near ones does."""
NEED_NO_ESTIMATES = ("fifo", "fifo_strict")
DAY = 86_400.0
MIN_BLOCKS = 10
"""Minimum number of blocks of time into which a log is divided: days, or shorter blocks in a log of fewer days. Only
blocks with submissions are resampled."""
MIN_JOBS = 50
MAX_ERROR = 0.25
"""Largest error of the simulator, and largest median distance of starts as a share of the logged mean wait, with which
a verdict is given: our choice."""
MAX_NAMES = 5
"""Maximum number of partitions or tenants that a note names."""
RESAMPLES = 4_999
MAX_ABOVE = 0.01
"""Largest share of the log's GPU time beyond the cluster's GPUs, since clocks of hosts differ: our choice."""
MIN_WAIT_S = 1.0
"""Minimum logged mean wait for a verdict, s."""
SHORT_WAIT_S = 300.0
"""Mean wait, s, up to which a scheduler's delays of some seconds may matter: our choice."""
LONG_WAIT_S = 60.0
"""Waits up to this, s, count as those of the scheduler's cycle, not of the queue."""


class Calibration(NamedTuple):
    """The candidate that is nearest to the log's own scheduler, and the simulator's error.

    name: the candidate.
    log_s, simulated_s: mean wait, logged and simulated, s.
    median_s: median distance between a job's simulated and logged start, s.
    rank: rank correlation of the starts.
    """

    name: str
    log_s: float
    simulated_s: float
    median_s: float
    rank: float

    @property
    def error(self) -> float:
        """Distance of the simulated mean wait from the logged one, as a share of the latter."""
        return abs(self.simulated_s - self.log_s) / self.log_s

    @property
    def too_far(self) -> str:
        """Why the simulation is too far from the log for a verdict; empty where it is not."""
        if self.error > MAX_ERROR:
            return (
                f"the simulator's own error on this log is {_percent(self.error)}, above the limit of "
                f"{_percent(MAX_ERROR)}"
            )
        if self.median_s > MAX_ERROR * self.log_s:
            return (
                f"the simulated mean wait is near the logged one by chance, since half of the jobs start more than "
                f"{duration(self.median_s)} from their logged start, above the limit of {_percent(MAX_ERROR)} of the "
                "mean wait"
            )
        return ""


class Effect(NamedTuple):
    """Change of the mean wait relative to the log's own scheduler, -0.31 for 31 % less, with its interval."""

    change: float
    low: float
    high: float


def why_none(workload: "Workload") -> str:
    """Return the reason for which no verdict on a workload is possible; empty where one is."""
    scenario, table = workload.scenario, workload.table
    if not scenario.trace_file or not scenario.full_trace:
        return "the full trace of a log is required (--trace-file, --full-trace)"
    if changed := _changed(scenario):
        return f"the jobs are not those of the log (drop {', '.join(changed)})"
    if "logged_start_s" not in table:
        return "the log has no starts (column logged_start_s)"
    if len(table) < MIN_JOBS:
        return f"the log has fewer than {MIN_JOBS} jobs ({len(table)})"
    if (wait_s := float(_logged_waits(table).mean())) < MIN_WAIT_S:
        return f"the mean wait in the log is {wait_s:.2g} s (at least {MIN_WAIT_S:g} s is required)"
    begin, gpus = table["logged_start_s"].to_numpy(float), table["num_gpus"].to_numpy(float)
    time, held = gpus_held(begin, begin + table["duration_s"].to_numpy(float), gpus)
    above = (np.maximum(held - workload.cluster.num_gpus, 0)[:-1] * np.diff(time)).sum()
    if above > MAX_ABOVE * (held[:-1] * np.diff(time)).sum():
        return (
            f"the log's jobs held {held.max():,.0f} GPUs at once, and {workload.cluster.name} has "
            f"{workload.cluster.num_gpus:,} (name the log's cluster by --cluster)"
        )
    return ""


def recorded(workload: "Workload") -> pd.DataFrame:
    """Return the log's own schedule, not simulated, as a results table."""
    jobs, nothing = workload.table, np.zeros(len(workload.table))
    start_s, run_s = jobs["logged_start_s"].to_numpy(float), jobs["duration_s"].to_numpy(float)
    as_logged = ("job_id", "kind", "num_gpus", "submit_s")
    return results.table(
        window=workload.window.number,
        seed=workload.scenario.seed,
        **{name: jobs[name].array for name in as_logged},
        status=jobs["status"].array if "status" in jobs else "",
        start_s=start_s,
        finish_s=start_s + run_s,
        wait_s=_logged_waits(jobs),
        run_s=run_s,
        overhead_s=nothing,
        lost_s=nothing,
        preemptions=nothing.astype(np.int64),
        oom_restarts=nothing.astype(np.int64),
    )


def candidates(workload: "Workload", simulated: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the results of the schedulers that the log may come from; those without results are simulated.

    A scheduler under which jobs never end has no results.
    """
    makers = {
        name: partial(baselines.make, baselines.load(name)) for name in CANDIDATES if name not in simulated
    }
    found = {name: simulated[name] for name in CANDIDATES if name in simulated}
    return found | runner.simulate(makers, [workload], failed={})


def calibrated(logged: pd.DataFrame, tried: Mapping[str, pd.DataFrame]) -> Calibration:
    """Return the candidate whose starts are nearest to those of the log, by the mean distance over jobs."""
    distance = {name: _distances(logged, each) for name, each in tried.items()}
    name = min(distance, key=lambda each: distance[each].mean())
    own = tried[name]
    order, our_order = (each["start_s"].rank() for each in (logged, own))
    varied = order.std() > 0 and our_order.std() > 0
    return Calibration(
        name,
        float(logged["wait_s"].mean()),
        float(own["wait_s"].mean()),
        float(np.median(distance[name])),
        float(order.corr(our_order)) if varied else 1.0,
    )


def effect(policy: pd.DataFrame, own: pd.DataFrame) -> Effect:
    """Return the change of the mean wait from the log's own scheduler to a policy, both simulated.

    The interval is a percentile bootstrap over days, or over shorter blocks in a log of fewer than ten days.
    """
    block = blocks(own["submit_s"].to_numpy(float))
    sums = np.array([np.bincount(block, each["wait_s"].to_numpy(float)) for each in (policy, own)])
    drawn = resampled(sums.shape[1])
    ours, theirs = (each[drawn].sum(axis=1) for each in sums)
    changes = ours[theirs > 0] / theirs[theirs > 0] - 1
    return Effect(float(sums[0].sum() / sums[1].sum() - 1), *percentile_limits(changes))


def interval_of_mean(found: pd.DataFrame) -> tuple[float, float, float]:
    """Return the mean wait of a results table and its interval, s; a bootstrap as in `effect`."""
    block, wait_s = blocks(found["submit_s"].to_numpy(float)), found["wait_s"].to_numpy(float)
    sums, counts = np.bincount(block, wait_s), np.bincount(block)
    drawn = resampled(len(counts))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return float(wait_s.mean()), *percentile_limits(means)


def ratio_intervals(
    found: Mapping[str, pd.DataFrame], reference: str
) -> tuple[dict[str, tuple[float, float]], str]:
    """Return the interval of each policy's mean JCT / the reference's in a full trace, and a sentence about it.

    found: results tables of the same jobs, by policy. A bootstrap as in `effect`.
    """
    submit_s = found[reference]["submit_s"].to_numpy(float)
    enough, about = over_blocks(submit_s)
    if not enough:
        return {}, about
    block = blocks(submit_s)
    drawn = resampled(int(block.max()) + 1)
    sums = {
        name: np.bincount(block, each["jct_s"].to_numpy(float))[drawn].sum(axis=1)
        for name, each in found.items()
    }
    return {name: percentile_limits(each / sums[reference]) for name, each in sums.items()}, about


def over_blocks(submit_s: Floats) -> tuple[bool, str]:
    """Return whether jobs and blocks suffice for intervals, and a sentence: the blocks, or why there are none."""
    count = len(np.unique(blocks(submit_s)))
    if len(submit_s) < MIN_JOBS or count < MIN_BLOCKS // 2:
        return False, (
            f"No intervals: {len(submit_s):,} jobs in {count} blocks of time are too few (at least {MIN_JOBS} jobs in "
            f"{MIN_BLOCKS // 2} blocks are required)."
        )
    length_s = length_of_block(submit_s)
    over = f"{count} days" if length_s == DAY else f"{count} blocks of {duration(length_s)}"
    narrow = f"; they are too narrow for fewer than {FULL_WINDOWS}" if count < FULL_WINDOWS else ""
    return True, f"Intervals: over {over} of submissions{narrow}."


def length_of_block(submit_s: Floats) -> float:
    """Return the length of a block, s: a day, or a tenth of the log in one of fewer than ten days."""
    return min(DAY, float(np.ptp(submit_s)) / MIN_BLOCKS) or 1.0


def blocks(submit_s: Floats) -> NDArray[np.int64]:
    """Return the block of time of each job; see `length_of_block`. The last block includes the end of the log."""
    passed = (submit_s - submit_s.min()) / length_of_block(submit_s)
    last = max(np.ceil(round(passed.max(), 6)) - 1, 0)
    _, block = np.unique(np.minimum(np.floor(passed), last), return_inverse=True)
    return block.astype(np.int64)


def resampled(count: int) -> NDArray[np.int64]:
    """Return the blocks of each resample: (resamples, count)."""
    return stream(0, "verdict").integers(count, size=(RESAMPLES, count))


def lines(
    workload: "Workload", simulated: Mapping[str, pd.DataFrame], policies: Sequence[str]
) -> tuple[list[str], pd.DataFrame | None]:
    """Return the sentences on the calibration and on each policy, and the log's schedule; None without a calibration.

    simulated: results tables by policy. policies: those on which a verdict is wanted.
    """
    if why := why_none(workload):
        return [f"No verdict: {why}."], None
    logged = recorded(workload)
    tried = candidates(workload, simulated)
    if not tried:
        return [f"No verdict: jobs never end under {', '.join(CANDIDATES)}."], None
    found = calibrated(logged, tried)
    waited = (logged["wait_s"] > LONG_WAIT_S).mean()
    about = [
        f"Log: mean wait {duration(found.log_s)}, and {100 * waited:.0f} % of {len(logged):,} jobs waited "
        "longer than a minute.",
        f"Calibration: {found.name} is nearest to the log, among "
        f"{', '.join(name for name in CANDIDATES if name in tried)}. Its simulated mean wait is "
        f"{duration(found.simulated_s)}, an error of {_percent(found.error)}; half of the jobs start within "
        f"{duration(found.median_s)} of their logged start; rank correlation of starts {found.rank:.3f}.",
    ]
    judged = [name for name in policies if name != found.name]
    parts = workload.scenario.parts
    if judged and found.too_far:
        hints = (
            _short_waits(found),
            _many_over_limit(workload),
            _several_partitions(workload),
            _several_tenants(workload, found),
            _given_quotas(workload),
        )
        about.append(" ".join([f"{too_far(', '.join(judged), found)}.", *filter(None, hints)]))
    else:
        about += [sentence(name, simulated[name], tried[found.name], found, parts) for name in judged]
        about += filter(None, [_given_quotas(workload)])
    if not judged:
        about.append(
            f"No verdict: {found.name}, the candidate nearest to the log's own scheduler, stands in for it (name "
            "another policy with --policy)."
        )
    return about, logged


def sentence(
    name: str, policy: pd.DataFrame, own: pd.DataFrame, calibration: Calibration, parts: frozenset[str]
) -> str:
    """Return the verdict on a policy, or the reason for which there is none.

    own: results of the log's own scheduler. parts: parts of physics that are on.
    """
    error = f"the simulator's own error on this log is {_percent(calibration.error)}"
    if calibration.too_far:
        return f"{too_far(name, calibration)}."
    if (pauses := int(policy["preemptions"].sum())) and "preemption" not in parts:
        return (
            f"No verdict on {name}: jobs were paused {pauses:,} times under it, which costs nothing here, since "
            "preemption is not simulated (add it to --physics, as in measured,preemption)."
        )
    found = effect(policy, own)
    what = f"{_percent(abs(found.change))} {'lower' if found.change < 0 else 'higher'}"
    between = sorted(abs(each) for each in (found.low, found.high))
    if found.low <= 0 <= found.high:
        return (
            f"No verdict on {name}: its mean wait is {what}, but the interval "
            f"({_signed(found.low)} to {_signed(found.high)}) contains 0; {error}."
        )
    if abs(found.change) <= calibration.error:
        return (
            f"No verdict on {name}: its mean wait is {what} ({' to '.join(f'{100 * each:.0f}' for each in between)}), "
            f"which is within the simulator's own error on this log, {_percent(calibration.error)}."
        )
    verb = "cut" if found.change < 0 else "raised"
    exact = (
        ""
        if "estimates" in parts or name in NEED_NO_ESTIMATES
        else " with true run times, since estimates are not simulated"
    )
    return (
        f"{name} would have {verb} the mean wait by {_percent(abs(found.change))} "
        f"({' to '.join(f'{100 * each:.0f}' for each in between)}){exact}; {error}. "
        f"Longest wait: {duration(policy['wait_s'].max())} under {name}, "
        f"{duration(own['wait_s'].max())} under {calibration.name}."
    )


def too_far(names: str, calibration: Calibration) -> str:
    """Return the sentence, without full stop, that policies get no verdict since the simulation is too far off."""
    return (
        f"No verdict on {names}: {calibration.too_far}, so the log's cluster or scheduler differs from the simulated "
        "one (check --cluster, and whether jobs are missing from the log)"
    )


def _many_over_limit(workload: "Workload") -> str:
    """Return a hint that time limits may not be in seconds; empty unless they end many jobs far too early."""
    found = next((note for note in workload.table.attrs["notes"] if note.startswith(OVER_LIMIT)), "")
    return f"{found[0].upper()}{found[1:]}." if found else ""


def _short_waits(calibration: Calibration) -> str:
    """Return a hint that a scheduler's own delays may matter; empty unless waits are short, and longer in the log."""
    if calibration.log_s > SHORT_WAIT_S or calibration.simulated_s >= calibration.log_s:
        return ""
    return (
        "Or the logged waits, which are short and longer than the simulated ones, include the scheduler's cycles and "
        "the launch and end of jobs, which take some seconds each and are not simulated."
    )


def _several_partitions(workload: "Workload") -> str:
    """Return a hint that the log has several partitions; empty where it has not, or where they are simulated."""
    if workload.scenario.partitions:
        return ""
    names = sorted({*workload.table.get("partition", pd.Series(dtype=str)).astype(str)} - {""})
    if len(names) < 2:
        return ""
    return (
        f"The log's jobs belong to {len(names)} partitions ({_first(names)}), simulated as one: name their nodes "
        "(--constraints partition --partitions NAME=0-3,...), or compare the jobs of one partition on its own nodes "
        "(of Slurm: sacct --partition NAME)."
    )


def _several_tenants(workload: "Workload", calibration: Calibration) -> str:
    """Return a hint that the log has several tenants; empty where it has not, or where quotas are simulated.

    Quotas make jobs wait while GPUs are free, so they do not explain that jobs wait longer in the simulation.
    """
    column = next((name for name in TENANT_COLUMNS if name in workload.table), None)
    if workload.scenario.quotas or column is None or calibration.simulated_s >= calibration.log_s:
        return ""
    names = sorted({*workload.table[column].astype(str)} - {""})
    if len(names) < 2:
        return ""
    return (
        f"The log's jobs belong to {len(names)} tenants ({_first(names)}), simulated without quotas, and waited longer "
        "in the log, as quotas would make them: if tenants have quotas, name them (--quotas NAME=GPUS,... or a CSV "
        "file, and --borrowing idle if tenants may use idle GPUs of others)."
    )


def _given_quotas(workload: "Workload") -> str:
    """Return a hint that the log may not have had the given quotas; empty without quotas."""
    if not workload.scenario.quotas:
        return ""
    return (
        "The log's own scheduler was simulated with the given quotas, too. If the log had none, there is no verdict on "
        "them: compare runs with and without --quotas."
    )


def _first(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + ", ..." * (len(names) > MAX_NAMES)


def _changed(scenario: "Scenario") -> list[str]:
    names = ("target_load", "max_duration", "shift")
    return [f"--{name.replace('_', '-')}" for name in names if getattr(scenario, name) is not None]


def _logged_waits(table: pd.DataFrame) -> Floats:
    waits: Floats = (table["logged_start_s"] - table["submit_s"]).to_numpy(float)
    return waits


def _distances(logged: pd.DataFrame, simulated: pd.DataFrame) -> Floats:
    """Return the seconds between the simulated and the logged start of each job."""
    distance: Floats = np.abs(simulated["start_s"].to_numpy(float) - logged["start_s"].to_numpy(float))
    return distance


def _percent(share: float) -> str:
    """Return a share in per cent, with one decimal below 10 %."""
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def _signed(change: float) -> str:
    return f"{100 * change:+.0f} %"
