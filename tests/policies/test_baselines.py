"""Every baseline finishes its jobs, is found by name, and acts as its paper claims.

`A 0-10` means that A runs from 0 to 10; jobs are named A, B, C ... in the order of the list.
"""

import inspect
import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from gpu_cluster_gym.baselines import load, make, names
from gpu_cluster_gym.baselines.xion import Xion
from gpu_cluster_gym.baselines.xion_threshold import threshold
from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.policy import Action, Policy, Ranking, RunsCompiled, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, windows

FOLDER = Path(__file__).resolve().parent.parent.parent / "baselines"
MAX_LINES = {"xion": 216, "qssf": 86, "gittins": 89, "xonar": 102, "muri": 70, "gavel": 205}
COMPILED = {"coda": 230, "aiturbo": 385, "optimus": 310, "tiresias": 145}  # with the whole algorithm
OTHERS = 70


def test_a_policy_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed command does not have the current folder on its path."""
    (tmp_path / "policy_of_this_folder.py").write_text("def policy(view): return None\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(tmp_path))])
    with pytest.raises(
        ValueError, match="no module 'policy_of_this_folder'; expected one in the current folder"
    ):
        load("policy_of_this_folder:policy")
    monkeypatch.chdir(tmp_path)
    assert callable(load("policy_of_this_folder:policy"))


def jobs(*rows: tuple[float, int, float], pause: float = 0.0, load: float = 0.0) -> np.ndarray:
    """Make jobs of (submit, GPUs, duration) with exact estimates."""
    array = np.zeros(len(rows), JOB)
    array["submit_s"], array["num_gpus"], array["duration_s"] = zip(*rows, strict=True)
    array["profiled_duration_s"] = array["duration_s"]
    array["pause_s"], array["load_s"] = pause, load
    return array


def drawn(seed: int, count: int, gpus: list[int], places: int, work_s: float = 900.0) -> np.ndarray:
    """Draw jobs that load `places` GPUs to 80 %, with free pauses and exact estimates."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.exponential(work_s / places / 0.8, count))
    sizes = rng.choice(gpus, count)
    return jobs(*zip(submit, sizes, rng.lognormal(np.log(work_s) - 0.2, 0.63, count), strict=True))


def play(policy: Policy, work: np.ndarray, cluster: Cluster, placement: str = "best_fit") -> Episode:
    """Run a policy with exact estimates."""
    return run(policy, Episode(work, cluster, exact=True, placement=placement), oracle=True)


def finishes(policy: Policy, work: np.ndarray, cluster: Cluster, placement: str = "best_fit") -> list[float]:
    ends: list[float] = play(policy, work, cluster, placement).state.finish_s[: len(work)].tolist()
    return ends


def mean_jct(policy: Policy, work: np.ndarray, cluster: Cluster) -> float:
    return float((finishes(policy, work, cluster) - work["submit_s"]).mean())


def named(name: str) -> Policy:
    return make(load(name))


# Found by name.


@pytest.mark.parametrize("name", names())
def test_a_file_has_one_policy_and_is_short(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(re.findall(r"^(?:def |class )?policy\b", source, re.MULTILINE)) == 1
    assert len(source.partition("\nGRID =")[0].splitlines()) <= (MAX_LINES | COMPILED).get(name, OTHERS)
    policy = load(name)
    assert isinstance(policy, Ranking | RunsCompiled) or inspect.isfunction(policy) or inspect.isclass(policy)


class Counting:
    """A policy that counts its decisions, in a number and in a list."""

    def __init__(self, limit: int = 0) -> None:
        self.limit, self.count, self.seen = limit, 0, list[float]()

    def __call__(self, view: View) -> Action:
        self.count += 1
        self.seen.append(view.now)
        return view.start_first(view.waiting) or Wait()


def test_no_state_of_a_policy_reaches_the_next_episode() -> None:
    """An object is copied as it was when it was named; a class and a partial make a new object each."""
    policies: list[Policy | type] = [Counting(), Counting, partial(Counting, limit=3)]  # type: ignore[list-item]
    for policy in policies:
        one, other = make(policy), make(policy)
        for each in (one, other):
            finishes(each, jobs((0, 1, 10), (0, 1, 10)), uniform(1, 1))
        assert isinstance(one, Counting)
        assert isinstance(other, Counting)
        assert one.count == len(one.seen) == other.count == len(other.seen) > 0
        assert one.limit == (3 if isinstance(policy, partial) else 0)


def test_an_object_that_cannot_be_copied_is_refused() -> None:
    policy = Counting()
    policy.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError, match=r"copied for each episode, and this Counting cannot be copied .* pass its class"
    ):
        make(policy)


def test_names_are_had_without_the_compiler() -> None:
    code = (
        "import sys; from gpu_cluster_gym import baselines; "
        "baselines.names(); print({'numba', 'pandas'} & set(sys.modules))"
    )
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_underscored_modules_are_no_policies() -> None:
    assert "_sharing" not in names()
    with pytest.raises(ValueError, match="unknown policy '_sharing'"):
        load("_sharing")


def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(
        ValueError, match=r"unknown policy 'xoin': expected one of .*\bfifo\b.*; did you mean 'xion'\?"
    ):
        load("xoin")


def test_somebodys_own_policy_is_named_by_module_and_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_lab.py").write_text(
        "from gpu_cluster_gym.simulator.policy import Ranking\nmine = Ranking('estimate')\nnumber = 3\n"
    )
    (tmp_path / "their_broken.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load("their_lab:mine") == Ranking("estimate")
    for wrong in ("their_lab:yours", "their_lab:number", "no_such_lab:mine"):
        with pytest.raises(ValueError, match=wrong):
            load(wrong)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load("their_broken:mine")


def test_a_class_is_instantiated_for_each_episode() -> None:
    assert named("xion") is not named("xion")
    assert named("fifo") is load("fifo")


# What each is for.


def test_srtf_beats_fifo_where_short_jobs_queue_behind_a_long_one() -> None:
    """FIFO: A 0-1000, B 1000-1010, C 1010-1020. SRTF: A 0-10, B 10-20, C 20-30, A 30-1020."""
    work = jobs((0, 1, 1000), (10, 1, 10), (11, 1, 10))
    assert finishes(named("fifo"), work, uniform(1, 1)) == [1000, 1010, 1020]
    assert finishes(named("srtf"), work, uniform(1, 1)) == [1020, 20, 30]


@pytest.mark.parametrize("name", ["fifo", "xion", "xion_threshold"])
def test_srtf_loses_where_pauses_are_expensive(name: str) -> None:
    """A 0-100, B 100-150; SRTF: A 0-10, pause -50, B 50-100, load -160, A 160-250."""
    work = jobs((0, 1, 100), (10, 1, 50), pause=40, load=60)
    assert finishes(named(name), work, uniform(1, 1)) == [100, 150]
    assert finishes(named("srtf"), work, uniform(1, 1)) == [250, 100]


def test_las_demotes_a_job_at_its_limits() -> None:
    """A is in the first queue, before B, until 3250: A 0-3250, B 3250-3350, A -4000, C 4000-4100, A -5200."""
    work = jobs((0, 1, 5000), (1000, 1, 100), (4000, 1, 100))
    assert finishes(named("las"), work, uniform(1, 1)) == [5200, 3350, 4100]


def test_easy_fills_gaps_without_delaying_the_head() -> None:
    """B needs all GPUs, free at 10. C 2-7 passes it; D would not be back in time, so: B 10-20, D 20-40."""
    work = jobs((0, 3, 10), (1, 4, 10), (2, 1, 5), (3, 1, 20))
    assert finishes(named("easy"), work, uniform(1, 4)) == [10, 20, 7, 40]
    assert finishes(named("fifo_strict"), work, uniform(1, 4)) == [10, 20, 25, 40]
    assert finishes(named("fifo"), work, uniform(1, 4)) == [10, 37, 7, 27]


def test_random_starts_in_any_order_and_pauses_no_job() -> None:
    work = jobs((0, 1, 10), (1, 1, 10), (1, 1, 10), (1, 1, 10))
    orders = set()
    for seed in range(60):
        state = run(named("random"), Episode(work, uniform(1, 1), exact=True, seed=seed)).state
        assert state.num_pauses == 0
        orders.add(tuple(np.argsort(state.finish_s[:4])))
    assert orders == {(0, *rest) for rest in itertools.permutations((1, 2, 3))}


# Xion.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("gpus", "nodes", "placement"), [(1, 1, "best_fit"), (1, 3, "pooled"), (8, 3, "pooled")]
)
def test_xion_is_srtf_where_pauses_are_free(seed: int, gpus: int, nodes: int, placement: str) -> None:
    work = drawn(seed, 100, [gpus], places=nodes)
    cluster = uniform(nodes, gpus)
    assert finishes(Xion(), work, cluster, placement) == finishes(named("srtf"), work, cluster, placement)


@pytest.mark.parametrize("cost", ["pause_s", "load_s"])
@pytest.mark.parametrize("new", [Xion, partial(Xion, "gap"), threshold])
def test_xion_is_sjf_where_pauses_are_endless(new: Callable[[], Policy], cost: str) -> None:
    work = drawn(7, 100, [1, 2, 4, 12], places=3)
    work[cost] = 1e9
    episode = play(new(), work, uniform(3, 8))
    assert episode.state.num_pauses == 0
    assert episode.state.finish_s[: len(work)].tolist() == finishes(named("sjf"), work, uniform(3, 8))


@pytest.mark.parametrize(
    ("new", "charge"), [(Xion, 2 * 10 + 20), (partial(Xion, "gap"), 10 + 20), (threshold, 10 + 20)]
)
@pytest.mark.parametrize(("beyond", "pauses"), [(0.5, 1), (0, 0), (-0.5, 0)])
def test_xion_displaces_one_victim_beyond_its_charge(
    new: Callable[[], Policy], charge: float, beyond: float, pauses: int
) -> None:
    """At 100 A has 900 s left; B displaces it if 900 - B > charge: derived 2 P + L, gap P + L."""
    work = jobs((0, 1, 1000), (100, 1, 900 - charge - beyond), pause=10, load=20)
    assert play(new(), work, uniform(1, 1)).state.num_pauses == pauses


@pytest.mark.parametrize(("rest", "pauses"), [(859, 0), (829.5, 1), (830, 0)])
def test_xion_charges_for_waiting_jobs_too(rest: float, pauses: int) -> None:
    """B waits behind A and loses 30 s of the only GPU: C must be 2 P + L + 30 s shorter than A's rest."""
    work = jobs((0, 1, 1000), (50, 1, 2000), (100, 1, rest), pause=10, load=20)
    assert play(Xion(), work, uniform(1, 1)).state.num_pauses == pauses
    assert play(Xion(count_queue=False), work, uniform(1, 1)).state.num_pauses == (rest < 860)


def test_xion_counts_only_waiting_jobs_that_the_gpus_are_large_enough_for() -> None:
    """C waits for the larger GPU, B's, so D does not pay for it: 900 - 850 > 40, but < 40 + 30 / 2."""
    work = jobs((0, 1, 1000), (0, 1, 5000), (50, 1, 9000), (100, 1, 850), pause=10, load=20)
    work["pause_s"][1] = 9000
    cluster = Cluster("two sizes", (1, 1), (16.0, 32.0), (6, 6))
    for needs, pauses in (30.0, 1), (10.0, 0):
        work["profiled_memory_gib"] = work["gpu_memory_gib"] = [10, 30, needs, 10]
        assert play(Xion(), work, cluster).state.num_pauses == pauses


@pytest.mark.parametrize("borrowing", ["none", "idle", "reclaim"])
@pytest.mark.parametrize(
    "name", ["xion", "xion_threshold", "fitgpp", "fifo_blind", "random", "themis", "union"]
)
def test_policies_end_where_pauses_take_no_time(
    name: str, borrowing: Literal["none", "idle", "reclaim"]
) -> None:
    """Claims of other tenants then bar GPUs at the instant at which a job is paused for another of its tenant."""
    for seed in range(6):
        scenario = Scenario(
            jobs=60,
            seed=seed,
            cluster="4x8",
            physics="estimates",
            quotas="proportional",
            borrowing=borrowing,
            drop_too_large=True,
            all_windows=True,
            target_load=1.5,
        )
        work = windows(scenario, "validation", 1)[0]
        assert work.results(run(make(load(name)), work.episode()))["finish_s"].notna().all()


def test_xion_counts_a_paused_jobs_load_in_its_order() -> None:
    """A pauses -110, B 110-120. A has 900 s left and 20 to load, C takes 910: C 120-1030, A -1950."""
    work = jobs((0, 1, 1000), (100, 1, 10), (105, 1, 910), pause=10, load=20)
    assert finishes(Xion(), work, uniform(1, 1)) == [1950, 120, 1030]


def test_xion_pauses_no_other_job_while_gpus_are_being_freed() -> None:
    """C displaces A: 20-520. D comes at 12, and displaces B once that pause is done: D 30-630."""
    work = jobs((0, 1, 9000), (0, 1, 8000), (10, 1, 500), (12, 1, 600), pause=10, load=20)
    ends = finishes(Xion("gap"), work, uniform(1, 2))
    assert ends[2:] == [520, 630]


def test_xion_clears_whole_nodes_for_a_gang_beyond_one() -> None:
    """C needs both nodes: A and B pause -105, C 105-115, both load -120 and have 900 left."""
    work = jobs((0, 2, 1000), (0, 2, 1000), (100, 4, 10), pause=5, load=5)
    assert finishes(Xion(), work, uniform(2, 2)) == [1020, 1020, 115]


def test_xion_spares_jobs_that_started_lately() -> None:
    """A has run 100 s when B comes, and is a victim only at 120 s: at the arrival of C, which is longer."""
    work = jobs((0, 1, 1000), (100, 1, 10), (130, 1, 2000), pause=1, load=1)
    assert finishes(Xion(q_min_s=120), work, uniform(1, 1))[1] == 141
    assert finishes(Xion(), work, uniform(1, 1))[1] == 111
