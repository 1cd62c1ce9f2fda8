"""The account of an episode is complete and exact: it agrees with the results and with views."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.account import HOLDINGS, LIVED, OVER_TIME, SEGMENTS, Account
from gpu_cluster_gym.simulator.episode import Episode, discipline_of, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import PHASES
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Start, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload
from tests.cases.by_hand import ONE, Lines, Script, job, on
from tests.cases.mixed_jobs import Whims, table_of, workload
from tests.cases.uncompiled import with_the_compiler_off
from tests.simulator.test_laws_physics import RANKINGS, twins_of

HELD = ("loading", "running", "pausing")
OTHERS = ("whims", "union", "xonar", "aiturbo", "gavel")
CASES = [
    *((name, "all") for name in (*RANKINGS, *OTHERS)),
    *(
        ("whims", config)
        for config in ("three a GPU", "late peaks", "elastic, cores", "failures", "start-up")
    ),
]
SEED = 2
each_case = pytest.mark.parametrize(("name", "config"), CASES)


@dataclass(frozen=True)
class Recorded:
    """A finished episode, its account, and read-only tables of both."""

    work: Workload
    episode: Episode
    account: Account

    @cached_property
    def results(self) -> pd.DataFrame:
        """Results of its jobs."""
        return self.work.results(self.episode)

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Segments of the account."""
        return self.account.segments()

    @cached_property
    def holdings(self) -> pd.DataFrame:
        """Holdings of the account."""
        return self.account.holdings()

    @cached_property
    def totals(self) -> pd.DataFrame:
        """Totals of the account over time."""
        return self.account.over_time()


def policy_of(name: str, episode: Episode) -> Policy:
    """Return a policy for an episode: a ranking, a random policy, or a baseline."""
    if name == "whims":
        return Whims(lambda action: episode.why_not(action) is None, seed=SEED, moves=250)
    return RANKINGS[name] if name in RANKINGS else baselines.make(baselines.load(name))


@cache
def recorded(name: str, config: str, *, step_by_step: bool = False, watched: bool = True) -> Recorded:
    """Return a finished episode under a policy; watched: whether an account is recorded."""
    work = twins_of(config, SEED, 24).work
    episode, account = work.episode(), Account()
    policy = policy_of(name, episode)
    run(policy, episode, step_by_step=step_by_step, account=account if watched else None)
    return Recorded(work, episode, account)


def seconds(segments: pd.DataFrame) -> pd.Series:
    return segments["to_s"] - segments["from_s"]


# Against the results.

SCRATCH = {"noted", "pass_gpus", "chosen_node", "chosen_gpus", "num_chosen", "gpus", "victims"}


@each_case
def test_the_record_is_the_same_with_and_without(name: str, config: str) -> None:
    """All fields are equal except scratch: a compiled policy that is recorded plans on a copy of the record."""
    one, other = (recorded(name, config, watched=watched).episode.state for watched in (True, False))
    fields = [field for field in one.dtype.names or () if field not in SCRATCH]
    assert [field for field in fields if one[field].tobytes() != other[field].tobytes()] == []


@each_case
def test_segments_follow_one_another_from_submission_to_end(name: str, config: str) -> None:
    episode, segments = recorded(name, config).episode, recorded(name, config).segments
    assert segments["job"].unique().tolist() == list(range(len(episode.jobs)))
    for number, submit_s in enumerate(episode.jobs["submit_s"]):
        life = segments[segments["job"] == number]
        ends = life["to_s"].tolist()
        assert life["from_s"].tolist() == [submit_s, *ends[:-1]]
        assert ends[-1] == episode.state.finish_s[number]
        assert (seconds(life) > 0).all()


@each_case
def test_a_segment_differs_from_the_one_before(name: str, config: str) -> None:
    segments = recorded(name, config).segments
    same = ["job", "phase", "holding", "cores", "throttle", "shared"]
    assert not (segments[same] == segments[same].shift()).all(axis=1).any()


@each_case
def test_times_by_phase_equal_the_results(name: str, config: str) -> None:
    results, segments = recorded(name, config).results, recorded(name, config).segments
    spent = segments.assign(spent=seconds(segments)).pivot_table(
        "spent", "job", "phase", aggfunc="sum", observed=False, fill_value=0.0
    )
    expected = {
        "wait_s": spent["queued"] + spent["reserved"] + spent["restarting"],
        "overhead_s": spent["loading"] + spent["pausing"],
    }
    for column, values in expected.items():
        assert results[column].tolist() == pytest.approx(values.tolist()), column
    assert (results["run_s"] + results["lost_s"]).tolist() == pytest.approx(spent["running"].tolist())


@each_case
def test_gpu_and_core_seconds_equal_the_results(name: str, config: str) -> None:
    results, segments = recorded(name, config).results, recorded(name, config).segments
    spent, running = seconds(segments), segments["phase"] == "running"
    width = segments["num_gpus"]
    for column, area in {
        "overhead_gpu_s": spent * width * ~running,
        "shared_s": spent * segments["shared"],
        "shared_gpu_s": spent * width * segments["shared"],
        "core_s": spent * segments["cores"] * np.maximum(width, 1),
    }.items():
        assert results[column].tolist() == pytest.approx(area.groupby(segments["job"]).sum().tolist()), column
    ran = (results["run_gpu_s"] + results["lost_gpu_s"])[results["kind"] == "gpu"]
    area = (spent * width * running).groupby(segments["job"]).sum()[results["kind"] == "gpu"]
    assert ran.tolist() == pytest.approx(area.tolist())


@each_case
def test_no_gpu_has_more_jobs_than_may_share_it(name: str, config: str) -> None:
    episode = recorded(name, config).episode
    each_gpu = recorded(name, config).holdings.explode("gpus").dropna(subset="gpus")
    assert set(each_gpu["gpus"]) <= set(range(episode.cluster.num_gpus))
    for _, here in each_gpu.groupby("gpus"):
        comes = here["from_s"].map(lambda _: 1), here["to_s"].map(lambda _: -1)
        moves = pd.concat([comes[1].set_axis(here["to_s"]), comes[0].set_axis(here["from_s"])])
        assert moves.sort_index(kind="stable").cumsum().max() <= episode.state.max_share


@each_case
def test_totals_add_up_to_the_results(name: str, config: str) -> None:
    results, episode, totals = (
        recorded(name, config).results,
        recorded(name, config).episode,
        recorded(name, config).totals,
    )
    time, rows = totals["time_s"].to_numpy(), totals[:-1]
    lasting = np.diff(time)
    assert (lasting > 0).all()
    assert totals.drop(columns="time_s").iloc[-1].tolist() == [0] * (len(OVER_TIME) - 1)
    early = np.diff(np.minimum(time, episode.state.busy_until))
    expected = {
        "present": episode.state.present_seconds,
        "idle_gpus": results["overhead_gpu_s"].sum(),
        "running_gpus": (results["run_gpu_s"] + results["lost_gpu_s"]).sum(),
        "cores": results["core_s"].sum(),
    }
    for column, sum_s in expected.items():
        assert (rows[column] * lasting).sum() == pytest.approx(sum_s), column
    busy = episode.state.busy_gpu_s[: len(episode.jobs)].sum()
    assert (rows["busy_gpus"] * early).sum() == pytest.approx(busy)


@each_case
def test_totals_are_those_of_the_segments(name: str, config: str) -> None:
    """Jobs in each phase, GPUs held by any job, and allocated memory agree at each time."""
    here = recorded(name, config)
    episode, segments, gpus = here.episode, here.segments, here.holdings["gpus"].tolist()
    columns = ("from_s", "to_s", "job", "holding", "num_gpus")
    from_s, to_s, job, holding, width = (segments[column].to_numpy() for column in columns)
    phase = segments["phase"].astype(str).to_numpy()
    for row in here.totals.itertuples():
        now = (from_s <= row.time_s) & (to_s > row.time_s)
        assert [row.queued, row.reserved, row.restarting] == [
            np.count_nonzero(phase[now] == waits) for waits in ("queued", "reserved", "restarting")
        ]
        assert row.present == np.count_nonzero(now)
        held = now & (holding >= 0)
        assert row.held_gpus == len({gpu for each in holding[held] for gpu in gpus[each]})
        need = (episode.jobs["gpu_memory_gib"][job[held]] * width[held]).sum()
        assert row.memory_gib <= need + 1e-9
        if not episode.state.peak_at:
            assert row.memory_gib == pytest.approx(need)


# Compared with views.


Sight = dict[int, tuple[object, ...]]  # phase, GPUs, cores, throttle and node of each job
NOTHING = ((), 0.0, 1.0, -1)


class Watching:
    """Policy that acts like another, and records its view at the end of each instant."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seen: dict[float, Sight] = {}

    def __call__(self, view: View) -> Action:
        """Return the other policy's action."""
        if isinstance(action := self.policy(view), Wait):
            self.seen[view.now] = dict(self.sight(view))
        return action

    def sight(self, view: View) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Yield each unfinished job and its visible state."""
        jobs, here = view.jobs, view.gpus.jobs
        cores, throttle, node = jobs.cores_now, jobs.throttle, jobs.node
        for number, phase in enumerate(jobs.phase.tolist()):
            if PHASES[phase] in HELD:
                gpus = tuple(np.flatnonzero((here == number).any(axis=1)).tolist())
                yield number, (PHASES[phase], gpus, cores[number], throttle[number], node[number])
            elif PHASES[phase] != "done":
                yield number, (PHASES[phase], *NOTHING)


def sights(account: Account, times: Iterable[float]) -> dict[float, Sight]:
    """Return an account's description of some moments, in the form of a view."""
    segments = account.segments()
    held = account.holdings()["gpus"].to_dict() | {-1: ()}
    columns = ("from_s", "to_s", "job", "phase", "holding", "cores", "throttle", "node")
    rows = list(zip(*(segments[name].tolist() for name in columns), strict=True))
    return {
        time: {row[2]: (row[3], held[row[4]], *row[5:]) for row in rows if row[0] <= time < row[1]}
        for time in times
    }


@each_case
def test_it_reproduces_the_view_of_every_moment(name: str, config: str) -> None:
    episode, account = twins_of(config, SEED, 24).work.episode(), Account()
    if name in RANKINGS:  # what watches it is none
        episode.state.discipline = discipline_of(RANKINGS[name], episode.discipline)
    watching = Watching(policy_of(name, episode))
    run(watching, episode, account=account)
    assert len(watching.seen) > 40
    assert sights(account, watching.seen) == watching.seen


# The same in other ways.


def tables(account: Recorded) -> list[pd.DataFrame]:
    return [account.segments, account.holdings, account.totals]


@pytest.mark.parametrize("config", ["all", "cores", "no sharing"])
@pytest.mark.parametrize("name", RANKINGS)
def test_a_ranking_gives_the_same_whole_and_step_by_step(name: str, config: str) -> None:
    whole, stepped = (tables(recorded(name, config, step_by_step=way)) for way in (False, True))
    for one, other in zip(whole, stepped, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def digest(name: str) -> str:
    """Return a hash of an account's contents."""
    written = (table.to_csv() for table in tables(recorded(name, "all")))
    return hashlib.sha256("".join(written).encode()).hexdigest()


def digests(names: list[str]) -> list[str]:
    return [digest(name) for name in names]


def test_it_means_the_same_with_the_compiler_off() -> None:
    names = ["remaining", "whims"]
    assert with_the_compiler_off(digests, names) == digests(names)


def test_its_size_grows_with_the_number_of_events() -> None:
    """Two jobs on one GPU take turns of 10 s: a thousand holdings in arrays that start with a few rows."""
    work = workload(table_of(job(5000), job(5000)), ONE, physics="memory,preemption")
    turns: Lines = {10 * turn: [Preempt((turn + 1) % 2), Start(turn % 2, on(0))] for turn in range(999)}
    turns[0], turns[9990] = [Start(0, on(0))], [Start(1, on(0))]
    account = Account()
    episode = run(Script(turns), work.episode(), account=account)
    assert episode.state.finish_s[:2].tolist() == [9990, 10000]
    holdings = account.holdings()
    assert holdings["job"].tolist() == [0] * 500 + [1] * 500
    assert holdings["from_s"].tolist() == [*range(0, 9990, 20), *range(10, 10000, 20)]
    assert account.over_time()["time_s"].tolist() == [*range(0, 10010, 10)]


def test_its_tables_have_the_columns_that_are_declared() -> None:
    for table, columns in zip(tables(recorded("whims", "all")), (SEGMENTS, HOLDINGS, OVER_TIME), strict=True):
        assert list(table) == list(columns)
    phases = [set(recorded(name, config).segments["phase"]) for name, config in CASES]
    assert set.union(*phases) == set(LIVED)


def test_it_is_of_one_episode_from_its_beginning() -> None:
    work, account = twins_of("all", SEED, 24).work, Account()
    with pytest.raises(ValueError, match="this account is empty"):
        account.segments()
    started = work.episode()
    started.advance()
    with pytest.raises(ValueError, match="before it starts"):
        run(RANKINGS["remaining"], started, account=account)
    run(RANKINGS["remaining"], work.episode(), account=account)
    with pytest.raises(ValueError, match="create another"):
        run(RANKINGS["remaining"], work.episode(), account=account)
