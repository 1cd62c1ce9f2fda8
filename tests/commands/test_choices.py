"""Choices are declared once, checked wherever they are made, and survive a file."""

import math
import re
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest

from gpu_cluster_gym import evaluate, train_agent
from gpu_cluster_gym.agents.training import MovesTraining, PlainTraining, SteerTraining, usual
from gpu_cluster_gym.evaluate import Evaluation
from gpu_cluster_gym.evaluation import choices, command, run_folder
from gpu_cluster_gym.simulator.choice import ChoiceError, changed, check, hints, names
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    ANYONE,
    EXCESS,
    GROWER,
    NEWCOMER,
    STATE,
    TURNS,
)
from gpu_cluster_gym.simulator.kernel.cluster.parameters import PARAMETERS, Parameters, recorded
from gpu_cluster_gym.simulator.physics import Physics, acting
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.train_agent import Run, read_choices
from gpu_cluster_gym.workloads import PARTS, Scenario, named

KINDS = (Scenario, SteerTraining, MovesTraining, PlainTraining, Evaluation, Run)


@dataclass(frozen=True)
class Choices:
    scenario: Scenario = field(default_factory=Scenario)
    out: str | None = None
    config: str | None = None
    workload: str | None = None
    steps: int = 3
    policy: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self)


def read(*args: object) -> Choices:
    return choices.read(Choices, [str(arg) for arg in args], command="test", about="")


@pytest.mark.parametrize("action", ["steer", "moves", "plain"])
def test_help_on_an_action_names_the_default_action(
    action: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other options have the defaults of the action that is named."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        train_agent.main(["--action", action, "--help"])
    out = " ".join(re.sub(r"[│\n]", " ", capsys.readouterr().out).split())
    of_action, rest = out.split("--action {", 1)[1].split("--algorithm", 1)
    assert of_action.endswith("(default: plain) ")
    assert f"(default: {usual(action).total_timesteps})" in rest.split("--total-timesteps", 1)[1]


# What may be.


def test_every_invalid_field_is_named_with_its_expectation() -> None:
    with pytest.raises(ChoiceError) as found:
        Scenario(max_share=99, tick=-5, jobs=0, placement="Spread")  # type: ignore[arg-type]
    assert sorted(str(found.value).split("; ")) == [
        "did you mean 'spread'?",
        "jobs 0: expected at least 1",
        "max_share 99: expected at least 1 and at most 4",
        "placement 'Spread': expected first_fit, best_fit, spread, pooled",
        "tick -5: expected at least 0",
    ]
    assert "--max-share 99" in found.value.as_flags


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_may_be_nan(kind: Any) -> None:
    numbers = [name for name, (hint, _) in hints(kind).items() if hint in (int, float)]
    for name, value in product(numbers, (math.nan, math.inf, -math.inf, True, "5", (5,))):
        with pytest.raises(ChoiceError, match=rf"^{name} "):
            kind(**{name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"trace": 3},
        {"full_trace": 1},
        {"full_trace": "true"},
        {"full_trace": None},
        {"seed": 1.5},
        {"seed": -1},
        {"jobs": None},
        {"target_load": 0.0},
        {"max_duration": 0},
        {"peak_at": 1.0},
        {"restart_delay": 0.0},
        {"contention": -0.1},
        {"node_mtbf_h": -1.0},
        {"node_repair_h": 0.0},
        {"checkpoint_every": 0},
        {"drain_every_h": 3.0},
        {"physics": "memory,gravity"},
        {"physics": "memory,everything"},
        {"physics": ""},
        {"oom_victim": "anyone"},
    ],
    ids=str,
)
def test_a_scenario_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ChoiceError, match=rf"^{name} .*: expected "):
        Scenario(**given)


def test_valid_values_are_accepted() -> None:
    assert Scenario(
        seed=cast(int, np.int64(3)),
        tick=0,
        drain_every_h=3.5,
        physics=" memory, cores",
    ).parts == {
        "memory",
        "cores",
    }
    standard = Scenario(physics="standard").parts
    assert Scenario(physics="standard,cpu_jobs").parts == {*standard, "cpu_jobs"} > standard
    assert Scenario(jobs=1, max_share=4, peak_at=0.999, target_load=1e-9).max_share == 4
    assert PlainTraining(target_kl=None, learning_seed=0, min_run_s=0).target_kl is None


def test_the_reward_of_training_is_a_module_or_a_path() -> None:
    assert PlainTraining(reward="regret").reward == "regret"
    assert PlainTraining(reward="mylab.rewards:mine").reward == "mylab.rewards:mine"
    with pytest.raises(ChoiceError, match=r"reward 'regrets': expected .*; did you mean 'regret'"):
        PlainTraining(reward="regrets")


def test_the_steps_of_the_first_rollouts_teach_the_critic_alone() -> None:
    """Eight rollouts of 32 steps on 64 environments; an imitation takes its quarter of the steps besides."""
    assert PlainTraining(total_timesteps=8 * 32 * 64 + 5).steps_of_actor == 5
    assert (
        PlainTraining(total_timesteps=40_000, init_from="srtf").steps_of_actor
        == 40_000 - 10_000 - 8 * 32 * 64
    )


@pytest.mark.parametrize("kind", KINDS)
def test_choices_inside_others_are_of_their_kind(kind: Any) -> None:
    for name in names(kind):
        assert name in {each.name for each in fields(names(kind)[name])}
    with pytest.raises(ChoiceError, match=r"^scenario .* expected a Scenario"):
        Evaluation(scenario={"jobs": 3})  # type: ignore[arg-type]


def test_sets_of_parts_have_names() -> None:
    assert Scenario(physics="exclusive").parts == {"memory", "preemption", "estimates"}
    assert Scenario(physics="all").parts == set(PARTS)
    standard = Scenario().parts
    assert set(PARTS) - standard == {"cpu_jobs", "gpu_types", "failures"}
    with pytest.raises(
        ChoiceError, match=r"all, none, exclusive, standard, or a comma-separated .*mean 'standard'"
    ):
        Scenario(physics="standart")


# Parameters of physics.


def test_each_parameter_is_a_field_of_the_scenario_and_of_the_record() -> None:
    scalars = {row[0]: row[1] for row in STATE if len(row) == 2}
    assert {each.name for each in PARAMETERS} <= {each.name for each in fields(Scenario)}
    assert {each.field for each in PARAMETERS} <= scalars.keys()
    assert len({row[0] for row in STATE}) == len(STATE)
    assert {each.part for each in PARAMETERS} - {None} <= set(PARTS)


def test_times_in_the_record_are_seconds_and_words_are_their_numbers() -> None:
    given = Parameters(
        node_mtbf_h=2.0, node_repair_h=0.5, oom_victim="grower", restart_delay=7.0, max_share=3
    )
    found = recorded(given)
    assert (found["node_mtbf"], found["node_repair"], found["restart_delay"]) == (7200.0, 1800.0, 7.0)
    assert (found["drain_every"], found["oom_victim"], found["max_share"]) == (math.inf, GROWER, 3)
    assert recorded(Parameters())["node_mtbf"] == math.inf


def test_the_kernel_numbers_words_in_the_order_of_their_declaration() -> None:
    assert get_args(hints(Parameters)["oom_victim"][0]) == ("newcomer", "random", "grower")
    assert get_args(hints(Parameters)["contention_form"][0]) == ("turns", "excess")
    assert (NEWCOMER, ANYONE, GROWER, TURNS, EXCESS) == (0, 1, 2, 0, 1)


def test_a_part_that_is_off_leaves_nothing_of_its_parameters() -> None:
    given = Scenario(max_share=4, peak_at=0.5, node_mtbf_h=2.0, restart_delay=7.0, contention_loss=1.0)
    off = {each.name: each.off for each in PARAMETERS}
    assert acting(given, frozenset()) == {**off, "restart_delay": 7.0}
    alone = {"max_share": 4, "peak_at": 0.5, "contention_loss": 1.0}
    assert acting(given, frozenset({"sharing"})) == {**off, **alone, "restart_delay": 7.0}
    assert acting(given, frozenset({"failures"}))["node_mtbf_h"] == 2.0


def test_by_default_jobs_do_not_affect_one_another() -> None:
    alone = Physics(**acting(Scenario(), frozenset()))
    assert alone == Physics()
    assert (alone.needs_nodes, alone.nodes_close) == (False, False)


# From flags and files.


def test_flags_override_the_file_and_the_file_the_workload(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"steps": 5, "cluster": "2x2", "scenario": {"jobs": 7}}')
    found = read("--jobs", 9, "--config", file, "--workload", "xion_small", "--no-all-windows")
    assert (found.steps, found.scenario.cluster, found.scenario.jobs) == (5, "2x2", 9)
    assert (found.scenario.trace, found.scenario.all_windows) == ("xion_small", False)
    assert read("--workload", "xion_small").scenario.all_windows


def test_a_file_may_name_its_workload(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"workload": "busy", "jobs": 7}')
    assert read("--config", file).scenario == replace(read("--workload", "busy").scenario, jobs=7)


def test_choices_come_back_from_a_run_folder(tmp_path: Path) -> None:
    scenario = Scenario(
        cluster="4x8", full_trace=True, target_load=1.5, node_mtbf_h=0.1 + 0.2, physics="none"
    )
    folder = run_folder.open_run_folder(
        "test", Choices(scenario, policy=("a", "b"), steps=7), tmp_path / "out"
    )
    found = read("--config", folder)
    assert found == Choices(scenario, policy=("a", "b"), steps=7, config=str(folder))


def test_none_survives_a_round_trip(tmp_path: Path) -> None:
    folder = run_folder.open_run_folder("test", Run(training=PlainTraining(target_kl=None)), tmp_path / "out")
    assert read_choices(["--config", str(folder)]).training == PlainTraining(target_kl=None)


def test_a_ranking_refuses_words_that_are_none() -> None:
    with pytest.raises(ChoiceError, match=r"preempt 'if_it_pays': expected .*cost_aware"):
        Ranking("weighted", "if_it_pays")  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match=r"key 'sumbit': .*; did you mean 'submit'"):
        Ranking("sumbit")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"steps": [1]}',
        '{"scenario": {"jobs": {}}}',
        '{"stepps": 1}',
        '{"steps": "4"}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_an_invalid_choices_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json"):
        read("--config", file)


def test_one_may_write_flags_in_several_ways() -> None:
    one = read(
        "--trace_file=a=b.csv", "--policy", "x", "y", "--target-load", "None", "--tick=1e2", "--full-trace"
    )
    assert one.policy == ("x", "y")
    assert (one.scenario.trace_file, one.scenario.tick, one.scenario.full_trace) == ("a=b.csv", 100.0, True)


def test_an_unknown_choice_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown field 'stepps': expected one of .*; did you mean 'steps'"):
        changed(Choices(), {"stepps": 3})


# Help.


@pytest.mark.parametrize(("main", "kind"), [(evaluate.main, Evaluation), (train_agent.main, Run)])
def test_help_explains_every_flag(main: Any, kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    explained = {}
    for entry in re.split(r"\n  --(?=\w)", re.sub("[│|]", " ", shown))[1:]:
        explained[entry.split()[0].rstrip(",")] = re.split(r"\(default|╰|\n\+--|\n  ---", entry)[0]
    assert {name.replace("_", "-") for name in names(kind)} == explained.keys() - {"help"}
    assert [
        name
        for name, entry in explained.items()
        if not re.search(r"[a-z]{2,}.*[\w>)]\.\s*$", entry, re.DOTALL)
    ] == []


@pytest.mark.parametrize(
    ("args", "noted"),
    [
        (["--trace", "busy"], True),
        (["--trace", "busy", "--workload", "busy"], False),
        (["--trace", "philly"], False),
        (["--jobs", "9"], False),
    ],
)
def test_a_trace_with_the_name_of_a_workload_is_noted(
    args: list[str], noted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--trace busy` has another cluster than `--workload busy`; that of Philly is the default."""
    choices.read(Run, args, command="train_agent.py", about="")
    output = capsys.readouterr()
    assert ("--workload busy also sets its cluster and windows" in output.out + output.err) == noted


def test_flags_and_files_about_windows_of_jobs_override_the_backlog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("--cluster", "8x8").scenario == replace(named("philly"), cluster="8x8")
    assert capsys.readouterr().err == ""
    assert read("--jobs", 60).scenario == Scenario(jobs=60)
    assert "--jobs does not apply to the steady windows of philly" in capsys.readouterr().err
    assert read("--jobs", 60, "--all-windows").scenario == Scenario(jobs=60, all_windows=True)
    assert "--jobs, --all-windows do not apply to the steady windows of philly" in capsys.readouterr().err
    assert read("--steady-load", "None").scenario == Scenario()
    assert "--steady-load None does not apply to the steady windows of philly" in capsys.readouterr().err
    assert read("--trace-file", "a.csv").scenario == Scenario(trace_file="a.csv")
    assert capsys.readouterr().err == ""
    file = tmp_path / "mine.json"
    file.write_text('{"jobs": 7}')
    assert read("--config", file).scenario == Scenario(jobs=7)
    assert read("--config", file, "--workload", "busy").scenario == replace(named("busy"), jobs=7)
    file.write_text('{"seed": 7}')
    assert read("--config", file).scenario == replace(named("philly"), seed=7)


def test_flags_and_files_that_contradict_a_steady_workload_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"workload": "philly", "jobs": 7}')
    for args in (("--workload", "philly", "--jobs", 7), ("--config", file)):
        with pytest.raises(ValueError, match="--jobs 7 does not apply to steady windows, which last 24 days"):
            read(*args)
    folder = run_folder.open_run_folder("test", Choices(named("philly")), tmp_path / "out")
    assert read("--config", folder).scenario == named("philly")
    with pytest.raises(ValueError, match="--jobs 7 does not apply to steady windows, which last 24 days"):
        read("--config", folder, "--jobs", 7)


def test_no_more_processes_are_used_than_there_are_processors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 3})
    assert [command.processors(asked) for asked in (None, 1, 2)] == [2, 1, 2]
    assert capsys.readouterr().err == ""
    assert command.processors(9) == 2
    assert "--processes 9: 2 are used" in capsys.readouterr().err
