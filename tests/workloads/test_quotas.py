"""Quotas are read from a flag or a CSV, or are in proportion to demand; time limits end jobs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Placement, Ranking, Start, Wait
from gpu_cluster_gym.simulator.tenants import proportional
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import TraceError
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, windows

JOBS = pd.DataFrame(
    {
        "job_id": list("abcd"),
        "submit_s": [0, 1, 2, 3],
        "num_gpus": [4, 4, 4, 1],
        "duration_s": [600, 600, 60, 100],
        "vc": ["one", "one", "two", "three"],
    }
)


def made(folder: Path, table: pd.DataFrame = JOBS, **fields: Any) -> Workload:
    table.to_csv(folder / "jobs.csv", index=False)
    usual: dict[str, Any] = {"cluster": "1x8", "physics": "none", "full_trace": True}
    return full_trace(Scenario(trace_file=str(folder / "jobs.csv"), **(usual | fields)))


def quotas_of(work: Workload) -> dict[str, int]:
    return dict(zip(work.tenants.names, work.tenants.quotas, strict=True))


def test_quotas_are_named(tmp_path: Path) -> None:
    """A tenant without a quota has 0 GPUs, one without jobs keeps its own."""
    work = made(tmp_path, quotas="two=4, one=3,four=1", borrowing="idle")
    assert quotas_of(work) == {"one": 3, "two": 4, "three": 0, "four": 1}
    assert work.tenants.names == ("two", "one", "four", "three"), "those with a quota first, as given"
    assert work.tenants.of_job.tolist() == [1, 1, 0, 3]


AT_FIRST = [("a", 0, 1, 600, "red"), ("b", 10, 1, 900, "blue")]
LATER = [("c", 5000, 1, 100, "green"), ("d", 6000, 1, 100, "grey"), ("e", 7000, 2, 100, "pink")]
OTHERS = [("c", 5000, 1, 90000, "grey"), ("d", 6000, 1, 100, "green"), ("e", 6500, 2, 100, "black")]


@pytest.mark.parametrize("quotas", ["red=2,blue=2,green=3,grey=1", "green=3,grey=0,red=1", "blue=1", "red=0"])
def test_named_quotas_tell_nothing_of_the_jobs_to_come(quotas: str, tmp_path: Path) -> None:
    """Two tables that differ after 5,000 s only show the same tenants until then, in the same order."""
    seen = []
    for later in (LATER, OTHERS, OTHERS[:1], []):
        table = pd.DataFrame(AT_FIRST + later, columns=list(JOBS.columns))
        view = (episode := made(tmp_path, table, quotas=quotas, borrowing="idle").episode()).view
        shown = []
        for _ in range(2):
            episode.advance()
            shown.append(
                (view.tenants.quota.tolist(), view.tenants.num_gpus.tolist(), view.jobs.tenant.tolist())
            )
            job = len(view.jobs.phase) - 1
            if view.why_not(start := Start(job, Placement((job,)))) is None:
                episode.apply(start)
            episode.apply(Wait())
        seen.append(shown)
    assert len(seen) > 1
    assert all(shown == seen[0] for shown in seen)


def test_tenants_without_a_quota_are_shown_when_their_first_job_arrives(tmp_path: Path) -> None:
    table = pd.DataFrame(AT_FIRST + LATER, columns=list(JOBS.columns))
    episode = made(tmp_path, table, quotas="blue=3", borrowing="idle").episode()
    counts = {}

    def policy(view: View) -> Action:
        counts[view.now] = len(view.tenants.quota)
        assert len(view.tenants.num_gpus) == counts[view.now] > view.jobs.tenant.max()
        return view.next_move(Ranking("submit"))

    run(policy, episode)
    assert [counts[now] for now in (0.0, 10.0, 5000.0, 6000.0, 7000.0)] == [2, 2, 3, 4, 5]


def test_proportional_quotas_are_in_the_order_of_the_names(tmp_path: Path) -> None:
    assert made(tmp_path, quotas="proportional", borrowing="idle").tenants.names == ("one", "three", "two")


def test_a_note_names_tenants_without_quota_and_names_without_jobs(tmp_path: Path) -> None:
    """A misspelt tenant is one of each; without such a tenant of the log there is no note."""
    notes = made(tmp_path, quotas="two=4,onw=3", borrowing="idle").table.attrs["notes"]
    assert notes[-1] == (
        "tenants that --quotas does not name, with a quota of 0: one, three; it names tenants without jobs here: onw"
    )
    notes = made(tmp_path, quotas="one=1,two=2,three=3,four=1", borrowing="idle").table.attrs["notes"]
    assert not any("--quotas" in note for note in notes)


def test_a_job_too_wide_for_its_quota_is_named_by_its_id(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"the first is job c of tenant 'two' \(GPUs: 4\), whose quota is 3\)"
    ):
        made(tmp_path, quotas="one=4,two=3,three=1")
    with pytest.raises(ValueError, match=r"whose quota is 0; without jobs, but with a quota: tow\): raise"):
        made(tmp_path, quotas="one=4,tow=3,three=1")


def test_quotas_come_from_a_csv(tmp_path: Path) -> None:
    file = tmp_path / "quotas.csv"
    file.write_text("gpus,tenant\n4,one\n2,two\n", encoding="utf-8")
    assert quotas_of(made(tmp_path, quotas=str(file), borrowing="idle")) == {"one": 4, "two": 2, "three": 0}
    file.write_text("gpus,tenant\n5,one\n2,two\n", encoding="utf-8")
    assert quotas_of(made(tmp_path, quotas=str(file), borrowing="idle"))["one"] == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tenant\na\n", "line 1, column gpus"),
        ("tenant,gpus\none,1\none,2\n", "line 3, column tenant"),
        ("tenant,gpus\none,-1\n", "line 2, column gpus: found '-1'"),
    ],
)
def test_a_malformed_csv_is_refused_by_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "quotas.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=told):
        made(tmp_path, quotas=str(file))


def test_proportional_quotas_follow_gpu_time(tmp_path: Path) -> None:
    """GPU time is 4,800 to 240 to 100: one GPU for each tenant, and five more for the first."""
    assert quotas_of(made(tmp_path, quotas="proportional", borrowing="idle")) == {
        "one": 6,
        "two": 1,
        "three": 1,
    }
    assert proportional(np.array([3.0, 1.0]), 8) == (6, 2)
    assert proportional(np.array([1.0, 1.0, 1.0]), 8) == (3, 3, 2)
    with pytest.raises(ValueError, match="3 tenants cannot each have one of 2 GPUs"):
        proportional(np.ones(3), 2)


@pytest.mark.parametrize("quotas", ["one", "one=", "one=x", "one=1,one=2", "=3"])
def test_quotas_in_another_form_are_refused(quotas: str) -> None:
    with pytest.raises(ChoiceError, match="NAME=GPUS"):
        Scenario(quotas=quotas)


def test_names_without_a_job_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name some of one, two, three"):
        made(tmp_path, quotas="uno=4")


def test_jobs_without_a_tenant_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="require the column tenant or vc"):
        made(tmp_path, JOBS.drop(columns="vc"), quotas="one=4")


def test_the_column_tenant_comes_before_vc(tmp_path: Path) -> None:
    table = JOBS.assign(tenant=["x", "y", "x", "y"])
    assert quotas_of(made(tmp_path, table, quotas="x=4,y=4")) == {"x": 4, "y": 4}


def test_wide_jobs_are_dropped_only_if_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"quota and could never start \(the first is job"):
        made(tmp_path, quotas="one=3,two=3,three=2")
    work = made(tmp_path, quotas="one=3,two=3,three=2", drop_too_large=True)
    assert work.table["job_id"].tolist() == ["d"]
    assert "jobs wider than the quota of their tenant dropped: 3" in work.table.attrs["notes"]


def test_where_all_jobs_are_wider_than_their_quotas_these_are_to_be_raised(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"none of the 4 jobs is left \(raise the quotas, or let tenants borrow"
    ):
        made(tmp_path, quotas="one=3,two=3,three=0", drop_too_large=True)


def test_windows_of_a_generator_have_tenants() -> None:
    scenario = Scenario(jobs=30, quotas="proportional", borrowing="idle", all_windows=True, physics="none")
    work = windows(scenario, "train", 1)[0]
    assert sum(work.tenants.quotas) == 64
    assert run(Ranking("submit"), work.episode()).done


def test_a_shift_keeps_the_quotas() -> None:
    scenario = Scenario(
        jobs=30, quotas="proportional", borrowing="idle", all_windows=True, shift="run_times=2"
    )
    shifted = windows(scenario, "train", 1)[0]
    plain = windows(Scenario(**(vars(scenario) | {"shift": None})), "train", 1)[0]
    assert quotas_of(shifted) == quotas_of(plain)


def test_time_limits_end_jobs(tmp_path: Path) -> None:
    """A limit of 0 is none; estimates end at the limit, too."""
    table = JOBS.assign(time_limit_s=[300, 0, 60, 50], profiled_duration_s=[500, 500, 50, 120])
    work = made(tmp_path, table, physics="estimates")
    assert work.table["duration_s"].tolist() == [300, 600, 60, 50]
    assert work.table["profiled_duration_s"].tolist() == [300, 500, 50, 50]
    assert "jobs ended at their time limit: 2" in work.table.attrs["notes"]
