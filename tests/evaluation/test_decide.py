"""What a policy would do now: the actions of the simulator, in the words of the document, and nice values."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import local_slurm
from benchmarks.local_slurm import LocalSlurm, Submission
from gpu_cluster_gym import baselines
from gpu_cluster_gym.__main__ import main
from gpu_cluster_gym.baselines.xion import Xion
from gpu_cluster_gym.evaluation.decide import SCHEMA, decision, nice_values
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import set_up
from gpu_cluster_gym.simulator.policy import Action, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.search import still_queued
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import snapshot
from gpu_cluster_gym.workloads import Present, Scenario, present
from tests.cases.slurm_queue import NODES, RUNS, job, number, small_queue, squeue

HEADER = "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s"
QUEUE = f"""{HEADER}
old,0,1,100,0,200
runs,0,4,,0,9000
wide,10,8,,,5000
short,20,2,,,50
"""
"""One node of 8 GPUs at 100 s: four are held, and `wide` needs all."""


def decided(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str, text: str = QUEUE) -> Any:
    file = folder / "jobs.csv"
    file.write_text(text)
    assert main(["decide", str(file), *flags]) == 0
    return capsys.readouterr().out


def test_easy_starts_what_does_not_delay_the_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(decided(tmp_path, capsys, "--cluster", "1x8"))
    assert found["schema"] == SCHEMA
    assert (found["time_s"], found["running"], found["queued"]) == (100, 1, 2)
    (action,) = found["actions"]
    assert not any(note.startswith("no action") for note in found["notes"])
    assert action == {
        "order": 1, "action": "start", "job_id": "short", "gpus": 2, "places": [{"node": 0, "gpus": [4, 5]}],
    }  # fmt: skip


def test_strict_fifo_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Job `wide` needs both nodes, and `runs` has four GPUs of one of them."""
    found = json.loads(decided(tmp_path, capsys, "--cluster", "2x5", "--policy", "fifo_strict"))
    assert found["actions"] == []
    assert found["notes"][-1] == "no action: 6 of 10 GPUs are free, at most 5 of them on one node"


def test_srtf_names_its_victim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`wide` (5,000 s left) comes before `runs` (8,900 s) and needs all GPUs, so `runs` is paused for it."""
    text = "\n".join(QUEUE.splitlines()[:-1]) + "\n"
    found = json.loads(decided(tmp_path, capsys, "--cluster", "1x8", "--policy", "srtf", text=text))
    words = [(each["action"], each["job_id"], each["gpus"]) for each in found["actions"]]
    assert words == [("preempt", "runs", 4), ("start", "wide", 8)]
    assert found["actions"][0]["places"] == [{"node": 0, "gpus": [0, 1, 2, 3]}]


BOUND = f"""{HEADER},gpu_type,depends_on,priority
old,0,1,100,0,200,T4,,0
runs,0,4,,0,9000,T4,,0
wide,10,2,,,5000,T4,,1
short,20,2,,,50,A100,,2
waits,30,1,,,50,,short+old,3
any,40,2,,,60,,,9
"""
"""Four T4s, which `runs` holds, and four A100s. Of `wide`, `waits` and `any` only the last may start at once."""


@pytest.mark.parametrize(
    ("flags", "started"),
    [
        ((), ["wide", "short"]),
        (("--constraints", "gpu_type"), ["short", "waits"]),
        (("--constraints", "gpu_type,depends_on"), ["short", "any"]),
        (("--constraints", "all", "--policy", "priority"), ["any", "short"]),
    ],
)
def test_constraints_of_the_log_are_kept(
    flags: tuple[str, ...], started: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(decided(tmp_path, capsys, "--cluster", "1x4-t4+1x4-a100", *flags, text=BOUND))
    assert [each["job_id"] for each in found["actions"]] == started
    assert {place["node"] for each in found["actions"] for place in each["places"]} == {1}
    off = "columns of the log without effect: gpu_type, depends_on, priority (see --constraints)"
    assert (off in found["notes"]) == (not flags)


def test_partitions_without_their_constraint_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(BOUND)
    flags = ["--cluster", "2x4", "--partitions", "a=0"]
    assert main(["decide", str(tmp_path / "jobs.csv"), *flags]) == 2
    assert "expected constraints partition as well" in capsys.readouterr().err


def test_jobs_in_partitions_that_are_not_named_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old is in the history."""
    rows = QUEUE.splitlines()
    text = "\n".join([f"{rows[0]},partition", *(f"{row},gpu" for row in rows[1:])]) + "\n"
    flags = ["--cluster", "1x8", "--constraints", "partition", "--partitions", "big=0"]
    found = json.loads(decided(tmp_path, capsys, *flags, text=text))
    assert "--partitions names big, but 3 jobs are in gpu" in found["notes"]


def test_a_policy_of_ones_own_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "docs.examples.smallest_first:policy"
    found = json.loads(decided(tmp_path, capsys, "--cluster", "1x8", "--policy", own))
    assert [each["job_id"] for each in found["actions"]] == ["short"]


def drawn(folder: Path) -> Present:
    """Return seven running and 60 queued jobs on four nodes of eight GPUs."""
    rng = np.random.default_rng(1)
    rows = [
        f"r{each},0,{width},,{each},{limit}"
        for each, (width, limit) in enumerate(
            zip([1, 2, 4, 1, 8, 4, 2], [90, 500, 70, 5000, 800, 99, 3], strict=True)
        )
    ]
    rows += [f"q{each},{100 + each},{rng.integers(1, 12)},,,{rng.integers(50, 3000)}" for each in range(60)]
    (folder / "jobs.csv").write_text("\n".join([HEADER, "old,0,1,100,0,200", *rows]) + "\n")
    return present(snapshot(str(folder / "jobs.csv")), Scenario(cluster="4x8", physics="estimates"))


@pytest.mark.parametrize("name", ["fifo", "easy", "sjf", "srtf"])
def test_a_ranking_decides_as_if_each_action_were_carried_out(name: str, tmp_path: Path) -> None:
    """All of them together equal what the same ranking says when it is asked again after each action."""
    now = drawn(tmp_path)
    policy, counted = baselines.make(baselines.load(name)), 0
    assert isinstance(policy, Ranking)
    episode = now.episode()
    set_up(policy, episode)
    episode.advance()
    expected = list[Action]()
    while not isinstance(action := episode.view.next_move(policy), Wait):
        episode.apply(action)
        expected.append(action)
        counted += isinstance(action, Start)
    assert counted
    assert decision(now, policy).actions == expected


def test_xion_decides_alike_if_it_sorts_the_queue_anew_for_each_action(tmp_path: Path) -> None:
    class Anew(Xion):
        def __call__(self, view: View) -> Action:
            self._order = None
            return super().__call__(view)

    now = drawn(tmp_path)
    found = decision(now, Xion()).actions
    assert {type(each) for each in found} == {Start, Preempt}
    assert found == decision(now, Anew()).actions


def test_no_garbage_is_collected_during_a_decision(tmp_path: Path) -> None:
    """A collection would take longer than the decision; afterwards it is on again, even if the policy fails."""
    now, seen = drawn(tmp_path), []

    def policy(view: View) -> Action:
        seen.append(gc.isenabled())
        raise RuntimeError(str(view.now))

    assert gc.isenabled()
    with pytest.raises(RuntimeError):
        decision(now, policy)
    assert seen == [False]
    assert gc.isenabled()


def test_an_order_is_complete_only_without_other_queued_jobs(tmp_path: Path) -> None:
    episode = drawn(tmp_path).episode()
    episode.advance()
    view, none = episode.view, np.empty(0, np.int64)
    order = view.queue[::-1]

    def kept(jobs: np.ndarray, displaced: np.ndarray) -> list[int]:
        found = still_queued(view, jobs, displaced)
        assert found is not None
        return list(map(int, found))

    assert kept(np.append(order, view.running[0]), none) == order.tolist()
    assert still_queued(view, order[1:], none) is None
    assert kept(order[1:], order[:1]) == order[1:].tolist()
    assert kept(np.append(order, 10**9), none) == order.tolist()


def test_nice_values_give_slurm_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under SJF `short` comes first; without priorities in the file all are taken as equal."""
    (tmp_path / "jobs.csv").write_text(QUEUE)
    args = ["decide", str(tmp_path / "jobs.csv"), "--cluster", "1x8", "--policy", "sjf", "--nice"]
    assert main(args) == 0
    out, said = capsys.readouterr()
    assert out.splitlines() == [
        "scontrol update JobId=short Nice=0",
        "scontrol update JobId=wide Nice=1",
    ]
    assert "jobs.csv has no priorities of Slurm: they are taken as equal" in said


def test_priorities_minus_nice_values_fall_in_the_order() -> None:
    """Wanted c, a, b. c stays at 10; a falls from 30 to 9, and b from 5 not at all."""
    priority = {"a": 30.0, "b": 5.0, "c": 10.0}
    assert nice_values(["c", "a", "b"], priority) == [0, 21, 0]


@pytest.mark.parametrize(
    ("priority", "words"),
    [
        ({"a": 1.0, "b": 1.0}, "below 1"),
        ({"a": 5.0}, "job b has no priority"),
        ({"a": 1e9, "b": 4e9}, "Slurm accepts at most"),
    ],
)
def test_priorities_that_do_not_suffice_are_an_error(priority: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nice_values(["a", "b"], priority)


def test_random_orders_are_reproduced() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        ids = [str(each) for each in rng.permutation(30)]
        priority = {each: float(rng.integers(1000, 2000)) for each in ids}
        nice = nice_values(ids, priority)
        after = [priority[each] - by for each, by in zip(ids, nice, strict=True)]
        assert min(nice) >= 0
        assert (np.diff(after) < 0).all()


def test_nodes_of_slurm_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(NODES))
    machines = cluster(str(file))
    assert machines.node_names == ("gpu02", "gpu01")
    assert machines.node_gpus == (4, 8)
    left_out = "nodes of nodes.json left out, since they are down or drained (8 GPUs): 1"
    assert machines.left_out == left_out
    found = json.loads(decided(tmp_path, capsys, "--cluster", str(file)))
    assert found["actions"][0]["job_id"] == "wide"
    assert found["actions"][0]["places"] == [{"node": "gpu01", "gpus": list(range(8))}]
    assert left_out in found["notes"]


@pytest.mark.parametrize(("state", "gone"), [("IDLE", ""), ("DOWN", " (left out: n2)")])
def test_numbers_of_nodes_stay_when_a_node_is_down(
    state: str, gone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes 1 and 2 are of `big`, 3 of `small`: job 7 of `big` may not start on n3, and job 8 of `small` must."""
    nodes: list[dict[str, Any]] = [
        {"name": "login", "state": ["IDLE"], "gres": "", "cpus": 8},
        *({"name": name, "state": ["IDLE"], "gres": "gpu:4", "cpus": 8} for name in ("n1", "n2", "n3")),
    ]
    nodes[2]["state"] = [state]
    (file := tmp_path / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    jobs = [
        job(7, "PENDING", tres_req_str="gres/gpu=4", partition="big"),
        job(8, "PENDING", tres_req_str="gres/gpu=4", partition="small"),
        job(9, "PENDING", tres_req_str="gres/gpu=4", partition="big"),
    ]
    queue = squeue(tmp_path / "squeue.json", *jobs)
    args = ["decide", str(queue), "--cluster", str(file), "--constraints", "partition", "--partitions"]
    assert main([*args, "big=1-2,small=3"]) == 0
    found = json.loads(capsys.readouterr().out)
    starts = {each["job_id"]: each["places"][0]["node"] for each in found["actions"]}
    assert starts.pop("8") == "n3"
    assert set(starts.values()) == ({"n1"} if gone else {"n1", "n2"})
    assert f"nodes of --partitions by name: big has n1, n2{gone}; small has n3" in found["notes"]
    assert main([*args, "big=1-4"]) == 2
    why = "numbered 0 to 3, in the order of the file and with those left out"
    assert why in " ".join(capsys.readouterr().err.split())


def test_mig_slices_of_nodes_are_no_gpus(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    nodes = [
        {"name": "a", "state": ["IDLE"], "gres": "gpu:a100:2(S:0),gpu:1g.10gb:14(S:1)", "cpus": 64},
        {"name": "b", "state": ["IDLE"], "gres": "gpu:a100_3g.20gb:16", "cpus": 64},
        {"name": "c", "state": ["DRAIN"], "gres": "gpu:a100:4,gpu:1g.10gb:7", "cpus": 64},
    ]
    file.write_text(json.dumps({"nodes": nodes}))
    machines = cluster(str(file))
    assert (machines.node_names, machines.node_gpus) == (("a",), (2,))
    assert machines.left_out == (
        "nodes of nodes.json left out, since they are down or drained (4 GPUs): 1; MIG slices of nodes of nodes.json "
        "left out: 30"
    )
    file.write_text(json.dumps({"nodes": nodes[1:]}))
    with pytest.raises(ValueError, match="MIG slices are not read"):
        cluster(str(file))


def test_jobs_on_mig_slices_take_no_whole_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The slices are idle, so the last job has both A100s to itself."""
    nodes = [
        {"name": "a", "state": ["IDLE"], "gres": "gpu:a100:2", "cpus": 64},
        {"name": "m", "state": ["IDLE"], "gres": "gpu:1g.10gb:14", "cpus": 64},
    ]
    machines = tmp_path / "nodes.json"
    machines.write_text(json.dumps({"nodes": nodes}))
    tres = ("gres/gpu:1g.10gb=1", "gres/gpu:1g.10gb=1", "gres/gpu:a100=2")
    jobs = [job(k, ["PENDING"], tres_req_str=each) for k, each in enumerate(tres, 1)]
    queue = squeue(tmp_path / "squeue.json", *jobs)
    assert main(["decide", str(queue), "--cluster", str(machines), "--policy", "fifo"]) == 0
    (action,) = json.loads(capsys.readouterr().out)["actions"]
    assert (action["job_id"], action["places"]) == ("3", [{"node": "a", "gpus": [0, 1]}])


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"nodes": [{}]}', '{"nodes": []}', '{"sinfo": [{"nodes": 3}]}']
)
def test_other_files_of_nodes_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"nodes\.json: expected"):
        cluster(str(file))


@pytest.mark.parametrize(
    ("jobs", "note"),
    [
        ([], "read as the output of squeue --json"),
        ([job(2, "PENDING", state_reason="JobHeldUser")], "resources (JobHeldUser): 1"),
        ([job(2, "PENDING", tres_req_str="cpu=4")], "jobs without GPUs left out of the snapshot: 1"),
        ([job(2, "PENDING", tres_req_str="gres/gpu=99")], "jobs wider than nodes (12 GPUs) left out: 1"),
    ],
)
def test_an_idle_cluster_has_no_actions_and_no_starts(
    jobs: list[dict[str, Any]], note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A regular job that asks then must not fail; the file of starts has its headings alone."""
    small_queue(tmp_path)
    queue = squeue(tmp_path / "squeue.json", *jobs, last_update=number(1_700_000_200), errors=[])
    flags = [str(queue), "--cluster", str(tmp_path / "nodes.json")]
    flags += ["--constraints", "partition", "--partitions", "a=0"] if not jobs else []
    assert main(["decide", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["running"], found["queued"], found["actions"]) == (0, 0, [])
    assert (found["time_s"], found["cluster"]["gpus"]) == (1_700_000_200, 12)
    assert any(each.endswith(note) for each in found["notes"])
    assert main(["decide", *flags, "--nice"]) == 0
    assert capsys.readouterr().out == ""
    (starts := tmp_path / "starts.csv").write_text("old")
    assert main(["forecast", *flags, "--csv", str(starts)]) == 0
    assert "No job is queued on nodes, nothing to forecast" in " ".join(capsys.readouterr().out.split())
    assert starts.read_text() == "job_id,owner,num_gpus,waited_s,low,middle,high\n"


def test_a_cluster_whose_jobs_all_run_has_no_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_queue(tmp_path)
    queue = squeue(tmp_path / "squeue.json", RUNS)
    assert main(["forecast", str(queue), "--cluster", str(tmp_path / "nodes.json")]) == 0
    assert "No job is queued on nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"errors": [{"error": "Unable to contact slurm controller"}]},
            "no jobs, but errors: .*Unable to contact",
        ),
        (
            NODES | {"jobs": None},
            r"no list named jobs, but one of nodes, expected the output of squeue --all --json",
        ),
    ],
)
def test_a_file_without_jobs_that_is_no_idle_queue_is_refused(
    fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (file := tmp_path / "squeue.json").write_text(
        json.dumps(
            {
                name: each
                for name, each in ({"meta": {"slurm": {}}, "jobs": []} | fields).items()
                if each is not None
            }
        )
    )
    with pytest.raises(ValueError, match=words):
        snapshot(file)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (
            "NodeName=n01 Arch=x86_64\n   Gres=gpu:8\n",
            "nodes.txt",
            "found the text of scontrol show nodes: expected its JSON",
        ),
        ("PARTITION AVAIL  TIMELIMIT\ngpu* up infinite\n", "nodes.txt", "found the text of sinfo"),
        (json.dumps(NODES), "nodes", r"found JSON: expected a file name that ends in \.json"),
    ],
)
def test_the_text_of_slurm_is_no_file_of_nodes(text: str, name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        cluster(str(tmp_path / name))


def test_the_text_of_squeue_is_answered_with_its_json(tmp_path: Path) -> None:
    (file := tmp_path / "squeue.txt").write_text("             JOBID PARTITION     NAME     USER ST\n")
    with pytest.raises(ValueError, match=r"looks like squeue, .*forecast and decide: squeue --all --json"):
        snapshot(file)


def test_columns_apply_to_the_file_with_other_headings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here to the history, since squeue --json has known columns; alone, it refuses them."""
    small_queue(tmp_path)
    (log := tmp_path / "log.csv").write_text("Job,Come,GPUs,Began,Took\na,1600000000,1,1600000000,5\n")
    columns = "job_id=Job,submit_s=Come,num_gpus=GPUs,logged_start_s=Began,duration_s=Took"
    args = [
        "decide",
        str(tmp_path / "squeue.json"),
        "--cluster",
        str(tmp_path / "nodes.json"),
        "--columns",
        columns,
    ]
    assert main([*args, "--history", str(log)]) == 0
    assert "run times from log.csv" in json.loads(capsys.readouterr().out)["notes"]
    assert main(args) == 2
    assert "found --columns for squeue --json, whose columns are known" in " ".join(
        capsys.readouterr().err.split()
    )


def test_the_queue_is_no_file_of_nodes(tmp_path: Path) -> None:
    small_queue(tmp_path)
    with pytest.raises(ValueError, match=r"show nodes --json, or of sinfo --json \(no list named nodes\)"):
        cluster(str(tmp_path / "squeue.json"))


def test_a_queue_of_slurm_keeps_its_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Job 1 holds GPU 3 of gpu01 and GPU 0 of gpu02, so that only gpu01 has four free ones, once."""
    small_queue(tmp_path)
    args = ["decide", str(tmp_path / "squeue.json"), "--cluster", str(tmp_path / "nodes.json")]
    assert main(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["running"], found["queued"], found["time_s"]) == (1, 3, 1_700_000_200)
    (action,) = found["actions"]
    assert action["job_id"] == "2"
    assert action["places"] == [{"node": "gpu01", "gpus": [0, 1, 2, 4]}]
    assert main([*args, "--nice"]) == 0
    out, said = capsys.readouterr()
    assert out.splitlines() == [
        "scontrol update JobId=2 Nice=0",
        "scontrol update JobId=3 Nice=1",
        "scontrol update JobId=4 Nice=2",
    ]
    assert said == ""


def test_a_job_on_a_draining_node_holds_nothing_that_others_could_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """gpu03 drains. Job 7 runs there alone, job 8 on one GPU of it and on two of gpu02: ten GPUs are free."""
    runs = {"start_time": 1_700_000_100, "tres_alloc_str": "gres/gpu=8"}
    alone = job(7, "RUNNING", **runs, nodes="gpu03", gres_detail=["gpu:8(IDX:0-7)"])
    runs["tres_alloc_str"] = "gres/gpu=3"
    part = job(8, "RUNNING", **runs, nodes="gpu[02-03]", gres_detail=["gpu:2(IDX:0-1)", "gpu:1(IDX:7)"])
    file = squeue(tmp_path / "squeue.json", alone, part, job(9, "PENDING", tres_req_str="gres/gpu=10"))
    (tmp_path / "nodes.json").write_text(json.dumps(NODES))
    assert main(["decide", str(file), "--cluster", str(tmp_path / "nodes.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["running"] == 1
    (action,) = found["actions"]
    places = {each["node"]: each["gpus"] for each in action["places"]}
    assert places == {"gpu01": list(range(8)), "gpu02": [2, 3]}
    note = "running jobs on nodes that nodes leaves out or lacks, without their 9 GPUs there: 2"
    assert note in found["notes"]


@pytest.mark.slow(reason="a real Slurm starts jobs for half a minute")
def test_nice_values_reorder_a_real_slurm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four jobs wait for the node that a fifth holds; by their limits they start in another order than they came.

    sched/builtin with priority/basic would start them as they came: it does not look at priorities.
    """
    if why := local_slurm.missing():
        pytest.skip(why)
    limits = (5, 3, 1, 4)
    with LocalSlurm(tmp_path / "slurm", "backfill", nodes=1, gpus=8) as slurm:
        slurm.submit(Submission(0.0, 8, 12.0, 1))
        ids = [slurm.submit(Submission(0.0, 8, 1.0, limit)) for limit in limits]
        (tmp_path / "squeue.json").write_text(slurm.call("squeue", "--json"))
        (tmp_path / "nodes.json").write_text(slurm.call("sinfo", "--json"))
        args = ["decide", str(tmp_path / "squeue.json"), "--cluster", str(tmp_path / "nodes.json")]
        assert main([*args, "--policy", "sjf", "--nice"]) == 0
        for line in capsys.readouterr().out.splitlines():
            slurm.call(*line.split())
        slurm.wait(60.0)
        began = [float((slurm.folder / "began" / str(each)).read_text()) for each in ids]
    assert np.argsort(began).tolist() == np.argsort(limits).tolist()
