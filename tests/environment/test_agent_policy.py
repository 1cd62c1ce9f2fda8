"""A trained agent as a policy acts as in the environment, and invalid answers are refused with a message."""

import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import cloudpickle
import gymnasium
import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.agent_policy import AgentPolicy, PlainAgent
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import record
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Start, Wait
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny


def longest(view: View) -> np.ndarray:
    """Return the time, and the estimates of the four longest jobs in the queue."""
    estimates = np.sort(view.jobs.estimate_s[view.queue])[::-1][:4]
    return np.append(np.pad(estimates, (0, 4 - len(estimates))), view.now)


KINDS: dict[str, dict[str, Any]] = {
    "of_the_view": {"observation": longest, "min_run_s": 60.0},
    "plain": tiny.BY_RULE | {"queue_slots": 5, "margin": 1.0},
    "tables": tiny.BY_RULE | {"observation": "tables", "running_slots": 4},
    "by_agent": tiny.BY_RULE | {"placed_by": "agent", "victims_by": "agent", "min_run_s": 60.0},
    "placed_by_agent": tiny.BY_RULE | {"placed_by": "agent", "mask": "observation"},
    "victims_by_agent": {"min_run_s": 60.0},
    "displaces": {"min_run_s": 60.0, "when_full": "displace"},
    "displaces_and_places": {"min_run_s": 60.0, "when_full": "displace", "placed_by": "agent"},
    "moves": {"action": "moves", "max_moves": 8},
    "steer": {"action": "steer", "weights": ("price", "harm"), "decisions_per_window": 4},
}
FEW = 14  # jobs


def by_chance(seen: Any, mask: np.ndarray) -> int:
    """Choose a legal action that depends only on the observation."""
    legal = np.flatnonzero(mask)
    return int(legal[crc32(tiny.bits(seen)) % len(legal)])


def some_offsets(seen: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return offsets that depend on the observation."""
    return np.sin(40.0 * seen[: len(mask)]).astype(np.float32)


PREDICT: dict[str, Any] = {"steer": some_offsets}


def scenario(folder: Path, physics: str, count: int = FEW) -> dict[str, Any]:
    return tiny.scenario(folder, tiny.mixed(0)[:count], physics=physics)


@pytest.mark.parametrize(
    ("kind", "physics"), [*((kind, "all") for kind in KINDS), ("plain", "exclusive"), ("by_agent", "none")]
)
def test_a_policy_acts_like_its_agent_in_the_environment(kind: str, physics: str, tmp_path: Path) -> None:
    chosen, keywords = scenario(tmp_path, physics), KINDS[kind]
    predict = PREDICT.get(kind, by_chance)
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, **keywords).unwrapped
    seen, info = env.reset(options={"window": 0})
    over = False
    while not over:
        mask = info.get("action_mask", np.ones(2)).astype(bool)
        seen, _, over, truncated, info = env.step(predict(seen, mask))
        assert not truncated
    own: dict[str, Any] = {"jobs": FEW} if kind == "steer" else {}
    load = full_trace(Scenario(**chosen))
    table = load.results(run(AgentPolicy(predict, **keywords, **own), load.episode()))
    assert_frame_equal(table, env.results(), check_exact=True)
    rule = load.results(run(Rule(), load.episode()))
    assert not table["finish_s"].equals(rule["finish_s"]), "the agent chooses"


def lazily(seen: Any, mask: np.ndarray) -> int:
    """Wait in three of four cases, else choose a legal action; both depend only on the observation."""
    number, legal = crc32(tiny.bits(seen)), np.flatnonzero(mask)
    return int(legal[-1] if number % 4 else legal[number // 4 % len(legal)])


@pytest.mark.parametrize("physics", ["none", "estimates", "all"])
def test_long_waits_end_alike_where_the_agent_is_asked_step_by_step(physics: str, tmp_path: Path) -> None:
    long = tiny.mixed(0)[:FEW].assign(duration_s=lambda table: 40.0 * table["duration_s"] + 0.3)
    load = full_trace(Scenario(**tiny.scenario(tmp_path, long, physics=physics)))
    table, stepwise = (
        load.results(run(AgentPolicy(lazily), load.episode(), step_by_step=step_by_step))
        for step_by_step in (False, True)
    )
    assert_frame_equal(table, stepwise, check_exact=True)
    assert (table["start_s"] % 3600.0).isin(table["submit_s"]).any(), "some job waited for whole hours"


@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_acts_like_its_agent_in_the_default_environment(name: str, tmp_path: Path) -> None:
    chosen = scenario(tmp_path, "all")
    load = full_trace(Scenario(**chosen))
    rng = stream(crc32(load.episode().jobs["submit_s"].tobytes()), "actions")
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, illegal="first_legal").unwrapped
    _, info = env.reset(options={"window": 0})
    over = False
    while not over:
        legal = np.flatnonzero(info["action_mask"])
        _, _, over, _, info = env.step(
            legal[int(len(legal) * rng.random())] if name == "random_legal" else -1
        )
    table = load.results(run(baselines.make(FLOORS[name]), load.episode()))
    assert_frame_equal(table, env.results(), check_exact=True)


def test_random_legal_actions_depend_on_the_jobs_only(tmp_path: Path) -> None:
    """Asked step by step, a floor acts as inside the kernel; jobs that come later are treated otherwise."""
    found = []
    for later_s, step_by_step in ((0.0, False), (0.0, True), (1.0, False)):
        table = tiny.jobs()
        chosen = tiny.scenario(tmp_path, table.assign(submit_s=table["submit_s"] + later_s), physics="none")
        load = full_trace(Scenario(**chosen))
        floor = baselines.make(FLOORS["random_legal"])
        results = load.results(run(floor, load.episode(), step_by_step=step_by_step))
        found.append((results["start_s"] - later_s).tolist())
    assert found[0] == found[1] != found[2]


def first_come_claims(view: View) -> Action:
    """Let the first job claim GPUs where it does not fit; while it waits for them, start the first that fits."""
    reserved = {int(job) for job in view.gpus.reserved_for if job >= 0}
    for job in view.waiting:
        if placement := view.place(job):
            return Start(job, placement)
        wide = view.jobs.num_gpus[job] > 1
        if wide and not reserved and (placement := view.place_claim(job)):
            return Start(job, placement, claim=True)
    return Wait()


def test_the_first_legal_action_is_first_come_with_claims(tmp_path: Path) -> None:
    load = full_trace(Scenario(**tiny.scenario(tmp_path)))
    first, same, fifo = (
        load.results(run(baselines.make(each), load.episode()))
        for each in (FLOORS["first_legal"], first_come_claims, baselines.load("fifo"))
    )
    assert_frame_equal(first, same, check_exact=True)
    assert not first.equals(fifo), "jobs claim GPUs"


WRONG = [
    (KINDS["plain"], lambda seen, mask: 10**6, "action 1000000 does not exist: choose one of 0 to"),
    (KINDS["plain"], lambda seen, mask: np.zeros(3, int), "expected the number of one action"),
    (KINDS["plain"], lambda seen, mask: 0.5, "expected the number of one action"),
    (KINDS["moves"], lambda seen, mask: -1, "action -1 does not exist: choose one of 0 to"),
    (KINDS["steer"], lambda seen, mask: np.zeros(3), "expected a finite number for each of price, harm"),
    (
        KINDS["steer"],
        lambda seen, mask: np.full(2, np.nan),
        "expected a finite number for each of price, harm",
    ),
]


@pytest.mark.parametrize(("keywords", "predict", "said"), WRONG, ids=range(len(WRONG)))
def test_an_answer_that_is_no_action_is_refused(
    keywords: dict[str, Any], predict: Any, said: str, tmp_path: Path
) -> None:
    load = full_trace(Scenario(**scenario(tmp_path, "exclusive")))
    strict = {"illegal": "raise"} if keywords.get("action") != "steer" else {}
    with pytest.raises(ValueError, match=said):
        run(AgentPolicy(predict, **keywords, **strict), load.episode())


@pytest.mark.parametrize("kind", ["plain", "moves"])
def test_a_legal_action_replaces_an_illegal_one(kind: str, tmp_path: Path) -> None:
    load = full_trace(Scenario(**scenario(tmp_path, "exclusive")))
    first, wrong = (
        load.results(run(AgentPolicy(predict, illegal="first_legal", **KINDS[kind]), load.episode()))
        for predict in (lambda seen, mask: int(mask.argmax()), lambda seen, mask: 10**6)
    )
    assert_frame_equal(wrong, first, check_exact=True)


def test_kinds_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(
        ValueError, match="observation 'slots' requires placed_by='rule' and victims_by='rule'"
    ):
        AgentPolicy(by_chance, hints=True, placed_by="agent", observation="slots")
    with pytest.raises(ValueError, match="did you mean 'plain'"):
        AgentPolicy(by_chance, action="plan")


def test_an_agent_that_never_lets_jobs_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three jobs on all GPUs, free pauses: the running job is paused when it has loaded."""
    table = tiny.jobs(3).assign(
        submit_s=[0.0, 5.0, 10.0], num_gpus=16, pause_s=0.0, load_s=1.0, duration_s=1e6
    )
    load = full_trace(Scenario(**tiny.scenario(tmp_path, table, tick=1.0)))
    starts = 3 * 16
    restless = AgentPolicy(
        lambda seen, mask: int(starts + mask[starts:-1].argmax() if mask[starts:-1].any() else mask.argmax()),
        placed_by="agent",
        queue_slots=16,
        running_slots=16,
        min_run_s=0.0,
    )
    monkeypatch.setattr("gpu_cluster_gym.envs.agent_policy.MAX_INSTANTS_PER_JOB", 20)
    with pytest.raises(RuntimeError, match="pauses and restarts jobs again and again"):
        run(restless, load.episode())


def test_the_command_compares_it_with_heuristics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_agent.py").write_text(
        "from gpu_cluster_gym.envs.agent_policy import AgentPolicy\n"
        f"BY_RULE = {tiny.BY_RULE}\n"
        "policy = AgentPolicy(lambda seen, mask: int(mask.argmax()), **BY_RULE)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    monkeypatch.delitem(sys.modules, "my_agent", raising=False)
    chosen = scenario(tmp_path, "exclusive")
    flags = [f"--{name.replace('_', '-')}={it}" for name, it in chosen.items() if name != "full_trace"]
    args = ["--policy", "my_agent:policy", "fifo", *flags, "--full-trace", "--out", "out"]
    assert main(args) == 0
    assert "\nmy_agent:policy " in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["plain", "moves", "steer"])
def test_its_episodes_can_be_recorded(kind: str, tmp_path: Path) -> None:
    """The segments of a job add up to its JCT; the GPUs held in them are those that the results count."""
    load = full_trace(Scenario(**scenario(tmp_path, "all")))
    policy = AgentPolicy(PREDICT.get(kind, by_chance), **KINDS[kind])
    plain, recorded = load.results(run(policy, load.episode())), record.record_window(lambda: policy, load)
    assert_frame_equal(recorded.results, plain, check_exact=True)
    spent = recorded.segments["to_s"] - recorded.segments["from_s"]
    by_job, jcts = spent.groupby(recorded.segments["job_id"]).sum(), plain.set_index("job_id")["jct_s"]
    assert by_job[jcts.index].tolist() == pytest.approx(jcts.tolist())
    held = recorded.segments["phase"].isin(["loading", "pausing", "running"])
    busy = spent[held].groupby(recorded.segments["job_id"][held]).sum()
    columns = ["overhead_s", "run_s", "lost_s"]
    assert busy[jcts.index].tolist() == pytest.approx(plain[columns].sum(axis=1).tolist())
    assert len(set(recorded.segments["phase"])) > 2
    assert recorded.timeline["time_s"].is_monotonic_increasing


@pytest.mark.parametrize("kind", ["plain", "moves", "steer"])
def test_it_may_be_sent_to_another_process(kind: str, tmp_path: Path) -> None:
    policy = AgentPolicy(PREDICT.get(kind, by_chance), **KINDS[kind])
    load = full_trace(Scenario(**scenario(tmp_path, "exclusive")))
    sent = cloudpickle.loads(cloudpickle.dumps(policy))
    one, other = (load.results(run(each, load.episode())) for each in (policy, sent))
    assert_frame_equal(one, other, check_exact=True)


def test_of_the_jobs_it_keeps_nothing_between_episodes(tmp_path: Path) -> None:
    load = full_trace(Scenario(**scenario(tmp_path, "all", 3)))
    policy = AgentPolicy(by_chance, **KINDS["plain"])
    assert isinstance(policy, PlainAgent)
    left = load.episode()
    left.advance()
    policy(left.view)  # a start may still lack the pauses of its victims
    again, fresh = (
        load.results(run(each, load.episode())) for each in (policy, AgentPolicy(by_chance, **KINDS["plain"]))
    )
    assert_frame_equal(again, fresh, check_exact=True)
