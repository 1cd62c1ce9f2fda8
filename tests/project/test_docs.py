"""Code in `docs/your_own_policy.md` equals the files in `docs/examples/`, which run."""

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Ranking, Resize, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny
from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "your_own_policy.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
EXAMPLES = sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.py"))
LONGEST = 60  # lines
PHYSICS = ("all", "none")


def blocks() -> list[tuple[str, str]]:
    """Return each code block, after the file that was last named before it."""
    found = re.findall(r"^`(docs/examples/\w+\.py)`$|^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    named = ""
    pairs = []
    for file, code in found:
        named = file or named
        if code:
            pairs.append((named, code))
    return pairs


def workload(folder: Path, **fields: Any) -> Workload:
    """Return the tiny jobs as a workload: two nodes of eight GPUs."""
    return full_trace(Scenario(**tiny.scenario(folder, **fields)))


def policy_of(name: str) -> Any:
    return import_module(f"docs.examples.{name}").policy


def test_every_example_is_shown_and_every_block_is_of_one() -> None:
    assert {file for file, _ in blocks()} == {f"docs/examples/{name}.py" for name in EXAMPLES}
    assert TEXT.count("```") == 2 * len(blocks())


@pytest.mark.parametrize(("file", "code"), blocks(), ids=lambda text: text.splitlines()[0][:40])
def test_a_block_is_the_files_own_text(file: str, code: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"\n{code}" in f"\n{text}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short(name: str) -> None:
    lines = (ROOT / "docs" / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_by_the_command(
    name: str, physics: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = tiny.scenario(tmp_path, physics=physics)
    flags = [f"--{flag.replace('_', '-')}={value}" for flag, value in chosen.items() if flag != "full_trace"]
    policy = f"docs.examples.{name}:policy"
    code = main(["--policy", policy, *flags, "--full-trace", "--out", str(tmp_path / "out")])
    assert (code, capsys.readouterr().err) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["mean_over_windows"][policy]["jobs"] == tiny.COUNT
    assert summary["mean_over_windows"][policy]["unfinished"] == 0


def results_of(name: str, load: Workload) -> Any:
    return load.results(run(baselines.make(policy_of(name)), load.episode()))


def test_one_line_is_a_ranking() -> None:
    assert isinstance(policy_of("one_line"), Ranking)


def test_the_smallest_starts_first(tmp_path: Path) -> None:
    """One, two, two and four GPUs leave no node for eight until they end; whole clusters come last."""
    table = tiny.jobs(8).assign(submit_s=0.0, num_gpus=[16, 8, 8, 4, 2, 2, 1, 16], duration_s=100.0)
    started = results_of("smallest_first", workload(tmp_path, table=table, physics="none"))
    assert started["start_s"].tolist() == [200.0, 100.0, 100.0, 0.0, 0.0, 0.0, 0.0, 300.0]


def test_turns_are_taken(tmp_path: Path) -> None:
    """Two jobs of three hours and one of a minute, each for all GPUs: each first turn comes an hour after the last."""
    table = tiny.jobs(3).assign(submit_s=0.0, num_gpus=16, duration_s=[10_800.0, 10_800.0, 60.0])
    found = results_of("taking_turns", workload(tmp_path, table=table, physics="none"))
    assert found["start_s"].tolist() == [0.0, 3600.0, 7200.0]
    assert found["preemptions"].sum() > 2


def test_jobs_run_side_by_side_where_memory_and_work_allow(tmp_path: Path) -> None:
    """Three jobs, each for all eight GPUs: the second fits beside the first, the third needs too much memory."""
    table = tiny.jobs(3).assign(submit_s=0.0, num_gpus=8, duration_s=100.0, gpu_memory_gib=[6.0, 6.0, 12.0])
    table = table.assign(active_ms=30.0, idle_ms=70.0)
    found = results_of(
        "side_by_side",
        workload(tmp_path, table=table, cluster="1x8", physics="memory,sharing", contention=0.0),
    )
    assert found["start_s"].tolist() == [0.0, 0.0, 100.0]
    assert found["shared_s"].tolist() == [100.0, 100.0, 0.0]
    assert found["oom_restarts"].tolist() == [0, 0, 0]


def test_cores_are_added_while_they_help(tmp_path: Path) -> None:
    """A GPU job that needs six cores and asks for two gets six, tries a seventh, and gives it back."""
    table = tiny.jobs(1).assign(num_gpus=1, cpu_cores=2, duration_s=4000.0, active_ms=100.0, idle_ms=0.0)
    load = workload(tmp_path, table=table.assign(input_core_s=0.6), physics="cores")
    asked: Counter[float] = Counter()
    held: list[float] = []
    policy = baselines.make(policy_of("one_core_more"))

    def watched(view: View) -> Action:
        action = policy(view)
        match action:
            case Resize(_, float(cores)):
                asked[cores] += 1
            case Wait():
                held.extend(view.jobs.cores_now[view.running])
        return action

    run(watched, load.episode())
    assert asked == {3.0: 1, 4.0: 1, 5.0: 1, 6.0: 2, 7.0: 1}
    assert held[-1] == 6.0


def test_the_readme_is_short_and_begins_with_use() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings.index("Quick start") < headings.index("Results")


FOLDERS: tuple[str, ...] = (
    "agents",
    "baselines",
    "benchmarks",
    "docs",
    "envs",
    "evaluation",
    "experiments",
    "simulator",
)
FOLDERS += ("tests", "traces", "workloads")
PLACEHOLDERS = ("NAME", "mine")  # names of files that readers write


def test_every_file_that_the_docs_name_exists() -> None:
    folders = (ROOT / "docs", ROOT / "traces" / "data", ROOT)
    pages = [page for folder in folders for page in folder.glob("*.md") if page.name != "CHANGELOG.md"]
    pattern = rf"`((?:{'|'.join(FOLDERS)})/[\w./]+)`"
    named = {
        (page.name, Path(path))
        for page in pages
        for path in re.findall(pattern, page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    wanting = {(page, str(path)) for page, path in named if not (ROOT / path).exists()}
    assert {(page, path) for page, path in wanting if Path(path).stem not in PLACEHOLDERS} == set()
