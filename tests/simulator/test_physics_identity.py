"""A part of physics that is off, or unused, changes nothing: results are equal to the last bit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import PARTS, Workload
from tests.accounts import reference
from tests.accounts.reference import Job, Outcome, Rules
from tests.cases.mixed_jobs import OUTAGES, SMALL, TYPES, Whims, mixed_table, workload
from tests.cases.scenarios import MIXED, cluster_of, outcomes, random_jobs, ranking_of

USUAL = "memory,preemption,estimates"
OFF = ("sharing", "locality", "cores", "bandwidth", "elastic", "gpu_types", "failures")
MACHINES = cluster_of(MIXED)
LEVELS = (3250.0, 7200.0)
ORDERS = [
    Rules("submit", preempt=False, discipline="easy"),
    Rules("estimate", preempt=False),
    Rules("remaining", preempt=True),
    Rules("level", preempt=True, levels=LEVELS),
]


def name(rules: Rules) -> str:
    return f"{rules.key}-{rules.discipline}"


def table_of(jobs: list[Job], seed: int, **columns: Any) -> pd.DataFrame:
    """Return the reference's jobs as a table, with random values in columns that the reference does not know."""
    drawn = mixed_table(np.random.default_rng(seed), len(jobs), cpu_share=0.0)
    known: dict[str, Any] = {
        "submit_s": [job.submit_s for job in jobs],
        "num_gpus": [job.num_gpus for job in jobs],
        "duration_s": [job.duration_s for job in jobs],
        "profiled_duration_s": [job.estimate_s for job in jobs],
        "predicted_duration_s": [job.estimate_s for job in jobs],
        "gpu_memory_gib": [job.gpu_memory_gib for job in jobs],
        "profiled_memory_gib": [job.gpu_memory_gib for job in jobs],
        "pause_s": [job.pause_s for job in jobs],
        "load_s": [job.load_s for job in jobs],
        "predictable_from": 0.0,
        "cpu_cores": [job.num_gpus * (1 + number % 4) for number, job in enumerate(jobs)],
    }
    return drawn.assign(**known, **columns)


def ranked(work: Workload, rules: Rules) -> list[Outcome]:
    """Return the outcomes of a workload under a ranking."""
    return outcomes(run(ranking_of(rules), work.episode()))


@pytest.mark.parametrize("rules", ORDERS, ids=name)
def test_with_new_parts_off_it_is_the_plain_simulator(rules: Rules) -> None:
    """The table has all columns, but none is read."""
    jobs = random_jobs(np.random.default_rng(1), 80)
    work = workload(
        table_of(jobs, 2),
        MACHINES,
        physics=USUAL,
        discipline=rules.discipline,
        max_share=3,
        peak_at=0.5,
        contention=2.0,
        contention_loss=0.7,
        oom_victim="random",
        **OUTAGES,
    )
    assert ranked(work, rules) == reference.simulate(jobs, MIXED, rules)


@pytest.mark.parametrize("rules", ORDERS, ids=name)
def test_with_new_parts_on_but_not_called_on_it_is_the_plain_simulator(rules: Rules) -> None:
    """Rankings share no GPU; gangs fit on a node and stay there; cores and bandwidth suffice.

    Jobs scale, but none is resized; no job or node fails, and all GPUs are alike.
    """
    jobs = [job for job in random_jobs(np.random.default_rng(1), 100) if job.num_gpus <= 8]
    table = table_of(jobs, 2, servers=0, cpu_slowdown=0.0, crash_at=1.0)
    table["bandwidth_gbs"] *= 0.05
    work = workload(
        table, MACHINES, physics=f"{USUAL},{','.join(OFF)}", discipline=rules.discipline, peak_at=0.5
    )
    assert set(work.scenario.parts) >= set(OFF)
    assert work.physics.needs_nodes
    assert ranked(work, rules) == reference.simulate(jobs, MIXED, rules)


def results(table: pd.DataFrame, off: str, **choices: Any) -> pd.DataFrame:
    """Return the results of a random policy with all parts of physics except some."""
    work = workload(table, physics=",".join(part for part in PARTS if part not in off.split()), **choices)
    episode = work.episode()
    return work.results(run(Whims(lambda action: not episode.why_not(action), 0, moves=300), episode))


@pytest.mark.parametrize(
    ("off", "columns"),
    [
        ("locality elastic", ["sync_gb"]),
        ("bandwidth", ["bandwidth_gbs"]),
        ("cores bandwidth", ["input_core_s", "bandwidth_gbs"]),
        (
            "cores bandwidth locality sharing cpu_jobs elastic",
            ["input_core_s", "bandwidth_gbs", "sync_gb", "active_ms"],
        ),
        ("memory", ["gpu_memory_gib", "profiled_memory_gib"]),
        ("preemption", ["pause_s", "load_s"]),
        ("failures", ["crash_at"]),
        ("estimates", ["predictable_from"]),
    ],
)
def test_a_part_that_is_off_reads_no_column(off: str, columns: list[str]) -> None:
    """A part that is on does: the same change then changes results."""
    table = mixed_table(np.random.default_rng(3), 40, cpu_share=0.0 if "cpu_jobs" in off else 0.25)
    other = table.assign(**{column: table[column] * np.linspace(0.2, 1.0, 40) for column in columns})
    assert results(table, off).equals(results(other, off))
    assert not results(table, "").equals(results(other, ""))


@pytest.mark.parametrize(
    ("off", "columns"),
    [
        ("elastic", ["servers"]),
        ("elastic", ["min_workers", "max_workers"]),
        ("elastic", ["scaling_loss"]),
        ("elastic", ["cpu_slowdown"]),
        ("gpu_types", ["model"]),
    ],
)
def test_a_disabled_part_ignores_the_order_of_values(off: str, columns: list[str]) -> None:
    """The same, with the columns reversed."""
    table = mixed_table(np.random.default_rng(3), 40)
    other = table.assign(**{column: table[column].to_numpy()[::-1] for column in columns})
    assert results(table, off, cluster=TYPES).equals(results(other, off, cluster=TYPES))
    assert not results(table, "", cluster=TYPES).equals(results(other, "", cluster=TYPES))


@pytest.mark.parametrize(
    ("off", "numbers"),
    [
        (
            "sharing failures",
            {"contention": 3.0, "contention_loss": 1.0, "peak_at": 0.6, "restart_delay": 7.0},
        ),
        ("sharing", {"contention": 3.0, "contention_loss": 1.0, "peak_at": 0.6, "oom_victim": "grower"}),
        ("failures", OUTAGES),
        ("gpu_types", {"cluster": TYPES}),
    ],
)
def test_numbers_of_a_part_that_is_off_mean_nothing(off: str, numbers: dict[str, Any]) -> None:
    table = mixed_table(np.random.default_rng(3), 40)
    assert results(table, off).equals(results(table, off, **numbers))
    assert not results(table, "").equals(results(table, "", **numbers))


def test_pieces_of_a_run_at_full_speed_add_up_exactly() -> None:
    """With CPU jobs coming and going and no slowdown, durations are exact to the bit: finish = start + duration."""
    table = mixed_table(np.random.default_rng(4), 40)
    table = table.assign(bandwidth_gbs=0.01, num_gpus=np.minimum(table["num_gpus"], 2))
    table["cpu_cores"] = np.where(table["num_gpus"] > 0, table["num_gpus"], table["cpu_cores"])
    work = workload(table, SMALL, physics="memory,sharing,locality,cores,bandwidth,cpu_jobs")
    table = work.results(run(Ranking("submit"), work.episode()))
    assert (table["finish_s"] == table["start_s"] + work.table["duration_s"]).all()
