"""From a log comes what it holds, and nothing else unless a flag names it: by command, environment and library."""

import json
from pathlib import Path

import gymnasium
import pytest

import gpu_cluster_gym.envs  # noqa: F401
from gpu_cluster_gym import evaluate, traces, train_agent
from gpu_cluster_gym.evaluation.table_notes import parts_off
from gpu_cluster_gym.workloads import Scenario, full_trace, make_scenario, named, with_physics
from tests.cases.bad_logs import HELIOS_HEADER, HELIOS_JOB, SLURM_HEADER, SLURM_JOB

HEADER = "job_id,submit_s,num_gpus,duration_s"


def log(folder: Path, header: str = HEADER, *rows: str) -> str:
    """Return the path of a log: two jobs without anything but arrivals, GPUs and run times unless rows are given."""
    file = folder / "jobs.csv"
    file.write_text("\n".join([header, *(rows or ("a,0,1,60", "b,30,2,3600")), ""]))
    return str(file)


@pytest.mark.parametrize(
    ("header", "rows", "parts"),
    [
        (HEADER, (), "none"),
        (f"{HEADER},time_limit_s", ("a,0,1,60,100", "b,30,2,3600,7200"), "estimates"),
        (f"{HEADER},pause_s", ("a,0,1,60,3", "b,30,2,3600,3"), "none"),
        (f"{HEADER},pause_s,load_s", ("a,0,1,60,3,4", "b,30,2,3600,3,4"), "preemption"),
        (
            f"{HEADER},active_ms,idle_ms,gpu_memory_gib",
            ("a,0,1,60,80,20,7", "b,30,2,360,8,2,7"),
            "memory,sharing",
        ),
        (HELIOS_HEADER, (HELIOS_JOB,), "none"),
        (SLURM_HEADER, (SLURM_JOB,), "estimates"),
    ],
)
def test_the_parts_that_a_log_holds_are_on(
    tmp_path: Path, header: str, rows: tuple[str, ...], parts: str
) -> None:
    scenario = Scenario(trace_file=log(tmp_path, header, *rows), cluster="4x8", full_trace=True)
    assert with_physics(scenario).physics == parts
    assert full_trace(scenario).scenario.physics == parts


def test_a_flag_adds_a_part_to_those_that_are_measured(tmp_path: Path) -> None:
    file = log(tmp_path, f"{HEADER},time_limit_s", "a,0,1,60,100", "b,30,2,3600,7200")
    found = with_physics(Scenario(trace_file=file, physics="measured,preemption"))
    assert found.parts == {"preemption", "estimates"}


def test_commands_and_environments_agree(tmp_path: Path) -> None:
    file = log(tmp_path, f"{HEADER},time_limit_s", "a,0,1,60,100", "b,30,2,3600,7200")
    by_library = with_physics(Scenario(trace_file=file))
    flags, out = ["--trace-file", file, "--full-trace"], tmp_path / "out"
    assert evaluate.main(["--policy", "fifo", *flags, "--out", str(out)]) == 0
    assert json.loads((out / "choices.json").read_text())["scenario"]["physics"] == "estimates"
    assert train_agent.resolved(train_agent.read_choices(flags[:2])).scenario == by_library
    assert make_scenario(None, {"trace_file": file}) == by_library
    made = gymnasium.make("GPUCluster-v2", scenario={"trace_file": file, "full_trace": True})
    made.reset(seed=0)
    assert made.unwrapped.workload.scenario.physics == "estimates"  # type: ignore[attr-defined]


def test_a_named_workload_and_a_generator_keep_their_physics(tmp_path: Path) -> None:
    assert with_physics(Scenario()).parts == with_physics(Scenario(physics="standard")).parts
    assert make_scenario("busy", {"trace_file": log(tmp_path)}).physics == named("busy").physics
    with pytest.raises(ValueError, match="expected a log in trace_file"):
        with_physics(Scenario(physics="measured"))


def test_nothing_that_is_simulated_was_drawn(tmp_path: Path) -> None:
    file = log(tmp_path, f"{HEADER},time_limit_s", "a,0,1,60,100", "b,30,2,3600,7200")
    work = full_trace(Scenario(trace_file=file, cluster="1x4", full_trace=True))
    assert work.jobs["duration_s"].tolist() == [60, 3600]
    assert work.jobs["profiled_duration_s"].tolist() == [100, 7200]
    assert work.jobs["pause_s"].tolist() == [0, 0]
    assert not work.jobs["gpu_memory_gib"].any()


def test_a_parameter_of_a_part_that_the_log_lacks_is_noted(tmp_path: Path) -> None:
    fields = {"trace_file": log(tmp_path), "node_mtbf_h": 5.0}
    noted = "Note: flags without effect: --node-mtbf-h (requires --physics measured,failures)."
    assert noted in parts_off(make_scenario(fields=fields))
    assert noted not in parts_off(make_scenario(fields=fields | {"physics": "measured,failures"}))


def test_what_is_off_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    args = [
        "--policy",
        "fifo",
        "--trace-file",
        log(tmp_path),
        "--cluster",
        "1x4",
        "--full-trace",
        "--out",
        out,
    ]
    assert evaluate.main(args) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "not simulated, since the log lacks their inputs or --physics omits them: memory, preemption, estimates"
        in printed
    )
    assert "A pause costs nothing. Policies see true run times." in printed
    assert "Drawn, not measured" not in (tmp_path / "out" / "notes.txt").read_text()


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--columns", "job=x"), "unknown column 'job'"),
        (("--time-zone", "Europe/Berlim"), "did you mean 'Europe/Berlin'"),
        (("--trace", "slurm"), "what looks like a table in the job table's own columns"),
        (("--physics", "mesured"), "did you mean 'measured'"),
    ],
)
def test_a_wrong_flag_is_one_sentence(
    tmp_path: Path, flags: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main(["--policy", "fifo", "--trace-file", log(tmp_path), "--full-trace", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert word in line


def test_headings_and_zone_are_flags(tmp_path: Path) -> None:
    file = log(
        tmp_path, "id,submit_s,num_gpus,duration_s", "a,2024-03-31 01:59,1,60", "b,2024-03-31 03:05,1,60"
    )
    found = evaluate.read_choices(
        ["--policy", "fifo", "--trace-file", file, "--columns", "job_id=id", "--time-zone", "Europe/Berlin"]
    ).scenario
    assert full_trace(found).table["submit_s"].tolist() == [0, 360]


def test_cpu_jobs_of_a_log_are_left_out_before_it_is_cut_into_windows(tmp_path: Path) -> None:
    file = log(tmp_path, f"{HEADER},kind", "a,0,1,60,gpu", "b,1,0,60,cpu", "c,2,1,60,gpu")
    work = full_trace(Scenario(trace_file=file, cluster="1x4", full_trace=True))
    assert work.table["job_id"].tolist() == ["a", "c"]
    assert "CPU jobs of the log left out, since cpu_jobs is off: 1" in work.table.attrs["notes"]
    assert traces.load(file=file, seed=0)["job_id"].tolist() == ["a", "b", "c"]
