"""AITurbo's jobs have the stated distributions, and its experiment reports on the claim."""

from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache, partial
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy import stats

from gpu_cluster_gym import traces, workloads
from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.experiments import aiturbo
from gpu_cluster_gym.experiments._trials import change_trials, sample_trials
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Workload, aiturbo_ps, filled, named, prepare
from gpu_cluster_gym.workloads.aiturbo_ps import all_predictable, none_predictable, with_load, with_restart
from tests.experiments.test_experiments import Run

JOBS = 40_000
UNLIKELY = 4.0  # standard errors: exceeded once in 16,000 correct draws
LEAST_P = 1e-4


@cache
def many() -> pd.DataFrame:
    return workloads.load("aiturbo_ps", seed=5, jobs=JOBS)


def is_near(values: Any, mean: float, spread: float) -> bool:
    """Return whether the mean of independent draws is plausible, given the standard deviation of one."""
    return bool(abs(np.mean(values) - mean) < UNLIKELY * spread / np.sqrt(len(values)))


def has_share(chosen: Any, share: float) -> bool:
    return is_near(chosen, share, np.sqrt(share * (1 - share)))


def is_drawn_from(values: Any, distribution: Any) -> bool:
    """Return whether values pass a Kolmogorov-Smirnov test against a distribution."""
    return bool(stats.kstest(values, distribution.cdf).pvalue > LEAST_P)


# Distributions.


def test_jobs_are_drawn_from_the_stated_distributions() -> None:
    """Estimates have an error of 1 until a job is predictable; run times do not depend on when that is."""
    jobs = many()
    turns, run_s, gaps = jobs["predictable_from"], jobs["duration_s"], np.diff(jobs["submit_s"])
    later = (turns > 0) & (turns < 1)
    profiled, predicted = (np.log(jobs[f"{name}_duration_s"] / run_s) for name in ("profiled", "predicted"))
    run_times = stats.lognorm(1.2, scale=4_500)
    drawn: dict[str, tuple[Any, Any]] = {
        "run times": (run_s, run_times),
        "turns": (turns[later], stats.uniform(0.1, 0.8)),
        "scaling losses": (jobs["scaling_loss"], stats.uniform(0.02, 0.13)),
        "gaps": (gaps, stats.expon(scale=gaps.mean())),
        "good estimates": (profiled[turns == 0], stats.norm(0, 0.25)),
        "estimates to become good": (profiled[later], stats.norm(0, 1)),
        "bad estimates": (profiled[turns == 1], stats.norm(0, 1)),
        "later estimates": (predicted[later], stats.norm(0, 0.25)),
    } | {
        f"run times of {low} to {high}": (run_s[turns.between(low, high)], run_times)
        for low, high in ((0, 0), (0.1, 0.5), (0.5, 0.9), (1, 1))
    }
    assert [name for name, (values, law) in drawn.items() if not is_drawn_from(values, law)] == []
    assert abs(stats.spearmanr(profiled[later], turns[later]).statistic) < UNLIKELY / np.sqrt(later.sum())


def test_jobs_have_the_stated_shares() -> None:
    jobs = many()
    stated: dict[tuple[str, Any], float]
    stated = {("num_gpus", 1): 0.35, ("num_gpus", 2): 0.2, ("num_gpus", 4): 0.3, ("num_gpus", 8): 0.15}
    stated |= {("servers", 1): 0.5, ("servers", 2): 0.5}
    stated |= {("predictable_from", 0): 0.45, ("predictable_from", 1): 0.15}
    stated |= {("model", model): 1 / 6 for model in aiturbo_ps.CPU_SLOWDOWN}
    wrong = [each for each, share in stated.items() if not has_share(jobs[each[0]] == each[1], share)]
    assert wrong == []
    assert set(jobs["min_workers"]) == {1}
    assert set(jobs["max_workers"]) == {8}
    assert (jobs["cpu_cores"] == 5 * jobs["num_gpus"]).all()
    slower = jobs.groupby("model")["cpu_slowdown"].agg(["min", "max"])
    assert dict(slower["min"]) == dict(slower["max"]) == aiturbo_ps.CPU_SLOWDOWN


@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_the_load_is_that_of_the_requested_workers(load: float) -> None:
    table = with_load(many(), load)
    work = table["num_gpus"] * table["duration_s"]
    gaps = np.diff(table["submit_s"])
    measured = work.mean() / gaps.mean() / 16
    error = np.hypot(work.std() / work.mean(), gaps.std() / gaps.mean()) / np.sqrt(JOBS)
    assert measured == pytest.approx(load, rel=UNLIKELY * error)


def test_a_restart_takes_a_minute_on_average() -> None:
    restart_s = many()["pause_s"] + many()["load_s"]
    assert is_near(restart_s, 62.0, restart_s.std())
    assert is_near(np.log(restart_s), np.log(62.0) - 0.7**2 / 2, 0.7)
    assert (many()["pause_s"] / restart_s).to_numpy() == pytest.approx(0.4)


# Reproducibility.


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (partial(with_load, load=0.5), ["submit_s"]),
        (partial(with_restart, mean_s=250.0), ["pause_s", "load_s"]),
        (all_predictable, ["predictable_from", "profiled_duration_s"]),
        (none_predictable, ["predictable_from", "profiled_duration_s"]),
    ],
)
def test_a_change_affects_only_its_columns(change: Any, columns: list[str]) -> None:
    other = change(many())
    assert_frame_equal(other.drop(columns=columns), many().drop(columns=columns))
    assert all(not other[column].equals(many()[column]) for column in columns)


def test_estimates_of_all_or_no_predictable_jobs_have_the_stated_errors() -> None:
    everyone, nobody = all_predictable(many()), none_predictable(many())
    assert (everyone["predictable_from"] == 0).all()
    assert (nobody["predictable_from"] == 1).all()
    for table, error in ((everyone, 0.25), (nobody, 1.0)):
        off = np.log(table["profiled_duration_s"] / table["duration_s"])
        assert is_drawn_from(off, stats.norm(0, error))


# The workload.


def test_any_requested_job_fits_on_its_gpus() -> None:
    scenario = named("aiturbo_ps")
    machines = cluster(scenario.cluster_name)
    assert machines.num_gpus == aiturbo_ps.MACHINES.num_gpus
    (load,) = sample_trials("aiturbo_ps", 1, seed=0)
    jobs = load.jobs.view(np.recarray)
    assert (jobs.cores_each <= machines.cores_per_gpu).all()
    assert jobs.cores_each == pytest.approx(5 + 5 * jobs.servers / jobs.num_gpus)
    assert (jobs.servers > 0).all()
    assert (jobs.sync_gb > 0).all()


def test_a_job_alone_in_its_shape_takes_its_run_time() -> None:
    (load,) = sample_trials("aiturbo_ps", 1, seed=0)
    apart = change_trials([load], lambda table: table.assign(submit_s=1e7 * np.arange(len(table))))[0]
    for policy in (Tiresias(), Tiresias(servers_on_gpus=True)):
        results = apart.results(run(policy, apart.episode()))
        assert results["jct_s"].to_numpy() == pytest.approx(apart.table["duration_s"].to_numpy())


def two_jobs(**columns: Any) -> Workload:
    """Return two jobs of two workers and two servers on four GPUs, 1,000 s each, submitted at once."""
    scenario = replace(named("aiturbo_ps"), cluster="1x4-64c", physics="elastic")
    table = pd.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_s": 0.0,
            "num_gpus": 2,
            "duration_s": 1000.0,
            "servers": 2,
            "cpu_cores": 10,
        }
        | {"model": "resnet50", "min_workers": 1, "max_workers": 4, "scaling_loss": 0.1, "cpu_slowdown": 0.0}
        | columns
    )
    return prepare(filled(traces.check(table), scenario, seed=0), scenario)


def ends(policy: Policy, load: Workload) -> list[float]:
    found: list[float] = load.results(run(policy, load.episode()))["finish_s"].tolist()
    return found


def test_servers_on_gpus_make_jobs_wait() -> None:
    assert ends(Tiresias(), two_jobs()) == pytest.approx([1000, 1000])
    assert ends(Tiresias(servers_on_gpus=True), two_jobs()) == pytest.approx([1000, 2000])


def test_aiturbo_gives_idle_gpus_to_jobs() -> None:
    """The second job arrives after the first: in its requested shape each takes 1,000 s on half of the GPUs."""
    apart = two_jobs(submit_s=[0.0, 5000.0])
    assert ends(Tiresias(), apart) == pytest.approx([1000, 6000])
    first, second = ends(Aiturbo(), apart)
    assert first < 1000
    assert second < 6000
    assert ends(Aiturbo(elastic=False), apart) == pytest.approx([1000, 6000])


# The experiment.


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the experiment with two trials of 12 jobs and two other workloads."""
    folder = tmp_path_factory.mktemp("aiturbo") / "out"
    few = {name: aiturbo.CHANGES[name] for name in ("free restarts", "free exchange")}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(
            aiturbo, "sample_trials", lambda name, trials, seed, jobs=12: few_jobs(name, trials, seed)
        )
        patch.setattr(aiturbo, "CHANGES", few)
        patch.setattr(aiturbo, "HORIZONS", aiturbo.HORIZONS[::4])
        patch.setattr(aiturbo, "FITTED", 1)
        assert main(["--paper", "aiturbo", "--windows", "2", "--out", str(folder)]) == 0
    return Run(" ".join(printed.getvalue().split()), folder)


def few_jobs(name: str, trials: int, seed: int) -> list[Workload]:
    return sample_trials(name, min(trials, 2), seed, jobs=12)


def test_claims_are_compared_with_the_papers_number(tiny: Run) -> None:
    rows = tiny.claims()
    assert [row["paper"] for row in rows] == [3.0] * len(rows)
    assert all(row["low"] <= row["measured"] <= row["high"] for row in rows)


def test_every_policy_runs_on_the_same_jobs(tiny: Run) -> None:
    trials = pd.read_csv(tiny.folder / "trials.csv")
    assert trials.groupby(["setting", "policy"])["window"].nunique().eq(2).all()
    in_lab = trials["setting"].str.contains("laboratory")
    assert (trials["jobs"] == np.where(in_lab, 60, 12)).all()
    usual = trials[trials["setting"] == aiturbo.USUAL]
    variants = {"no Borda", "no elasticity", "no CPU workers", "servers on GPUs", "all resized", "queues"}
    assert set(usual["policy"]) == {*aiturbo.COMPARED, *(f"aiturbo, {each}" for each in variants)}


def test_the_output_names_inferred_details_and_server_placement(tiny: Run) -> None:
    words = (
        "Inferred: the mechanism",
        "2 test windows of 12 jobs",
        "servers on cores",
        "speed model's error",
        "grows with the horizon",
    )
    assert all(each in tiny.printed for each in words)


def test_the_speed_model_never_predicts_zero(tiny: Run) -> None:
    (load,) = sample_trials("aiturbo_ps", 1, seed=3, jobs=40)
    errors = pd.DataFrame(aiturbo.errors_of_fit(load))
    assert len(errors) == 40
    assert (errors["min_ms"] > 10).all()
    assert errors["profiled"].mean() < 0.05
    assert errors["others"].mean() < 0.05
