"""Invalid logs in the formats of other programs, each with the line and column that its error must name."""

from pathlib import Path
from typing import NamedTuple

from tests.cases.bad_input import Bad

SLURM_HEADER = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|"
    "ReqTRES|AllocTRES"
)
SLURM_JOB = (
    "101|u1|physics|gpu|normal|COMPLETED|2024-03-01T01:00:00|2024-03-01T01:00:00|2024-03-01T01:10:00|"
    "2024-03-01T02:10:00|3600|120|1|8|cpu=8,gres/gpu=2|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1"
)
SWF_HEADER = "; Version: 2.2\n; MaxProcs: 64\n; MaxNodes: 16\n"
SWF_JOB = "1 0 30 3600 16 -1 -1 16 7200 -1 1 3 2 1 1 1 -1 -1"
HELIOS_HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
HELIOS_JOB = "11,u1,v1,4,16,1,COMPLETED,2020-06-01 10:00:00,2020-06-01 10:00:30,2020-06-01 11:00:30,3600,30"


class Format(NamedTuple):
    """A format: header, a good job, the id of that job, and the name of a file."""

    header: str
    job: str
    id: str
    name: str

    def bad(self, case: str, old: str, new: str, column: str | None, word: str) -> Bad:
        """Return a file of two jobs, the second of which has `new` in place of its first `old`."""
        other = self.job.replace(self.id, self.id + "9", 1)
        assert old in other, case
        head = self.header if self.header.endswith("\n") else f"{self.header}\n"
        text = f"{head}{self.job}\n{other.replace(old, new, 1)}\n"
        return Bad(case, text.encode(), head.count("\n") + 2, column, word, self.name)


Slurm = Format(SLURM_HEADER, SLURM_JOB, "101", "sacct.txt")
Swf = Format(SWF_HEADER, SWF_JOB, "1", "log.swf")
Helios = Format(HELIOS_HEADER, HELIOS_JOB, "11", "cluster_log.csv")


def sacct(file: Path, count: int) -> None:
    """Write the accounting of jobs that come every ten minutes, wait ten minutes and run for an hour on 2 GPUs."""
    lines = [SLURM_HEADER]
    for number in range(count):
        at = [f"2024-03-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00" for minute in
              (10 * number, 10 * number + 10, 10 * number + 70)]  # fmt: skip
        fields = SLURM_JOB.split("|")
        fields[0], fields[6:10] = str(101 + number), [at[0], *at]
        lines.append("|".join(fields))
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")


ACME = Format(
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
    "1,u1,1,8,128,Other,FAILED,2023-03-01 04:50:00+08:00,2023-03-01 04:50:30+08:00,"
    "2023-03-01 04:52:30+08:00,120,30,960.0",
    "1",
    "trace_seren.csv",
)
OPENB = Format(
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
    "p1,6000,12288,1,460,,BE,Succeeded,100,900,105.0",
    "p1",
    "openb_pod_list.csv",
)
SPOT = Format(
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type",
    "1,13,A10,20,1,4,0,100000,HP",
    "1",
    "job_info_df.csv",
)
PAI_JOBS = """j1,i1,u1,Terminated,1000.0,4600.0
j2,i2,u1,Failed,1200.0,1260.0
j3,i3,u2,Running,1300.0,
j4,i4,u2,Waiting,,
"""
PAI_TASKS = """j1,ps,2.0,Terminated,1010.0,4600.0,600.0,29.296875,,CPU
j1,worker,4.0,Terminated,1010.0,4600.0,800.0,58.59375,100.0,V100
j2,tensorflow,1.0,Failed,1205.0,1260.0,600.0,29.296875,50.0,MISC
j3,worker,1.0,Running,1310.0,,600.0,29.296875,25.0,T4
"""
KUBERNETES_WORKLOAD = """{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
 "metadata": {"name": "train-1", "namespace": "team-a", "uid": "9", "creationTimestamp": "2024-03-01T10:00:00Z",
  "ownerReferences": [{"kind": "Job", "name": "train", "uid": "1"}]},
 "spec": {"queueName": "main", "priorityClassName": "high", "maximumExecutionTimeSeconds": 7200,
  "podSets": [{"count": 2, "template": {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
   "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}, "requests": {"cpu": "16", "memory": "64Gi",
    "nvidia.com/gpu": "4"}}}]}}}]},
 "status": {"admission": {"clusterQueue": "research"}, "conditions": [
  {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2024-03-01T10:04:00Z"},
  {"type": "Admitted", "status": "True", "lastTransitionTime": "2024-03-01T10:05:00Z"},
  {"type": "Finished", "status": "True", "lastTransitionTime": "2024-03-01T11:05:00Z"}]}}"""
KUBERNETES_JOB = """{"apiVersion": "batch/v1", "kind": "Job",
 "metadata": {"name": "train", "namespace": "team-a", "uid": "1", "creationTimestamp": "2024-03-01T10:00:00Z",
  "labels": {"kueue.x-k8s.io/queue-name": "main"}},
 "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]}}},
 "status": {"startTime": "2024-03-01T10:05:00Z", "completionTime": "2024-03-01T11:05:00Z", "conditions": [
  {"type": "Complete", "status": "True", "lastTransitionTime": "2024-03-01T11:05:00Z"}]}}"""


def _kubernetes(case: str, old: str, new: str, column: str | None, word: str, line: int = 2) -> Bad:
    """Return a list of one workload, which has `new` in place of the first `old`."""
    assert old in KUBERNETES_WORKLOAD, case
    text = f'{{"apiVersion": "v1", "items": [\n{KUBERNETES_WORKLOAD.replace(old, new, 1)}]}}'
    return Bad(f"kubernetes: {case}", text.encode(), line, column, word, "workloads.json")


def _slurm_header(case: str, old: str, new: str, column: str, word: str) -> Bad:
    header = SLURM_HEADER.replace(old, new)
    return Bad(case, f"{header}\n{SLURM_JOB}\n".encode(), 1, column, word, "sacct.txt")


LIMITS = "spec.podSets.template.spec.containers.resources.limits.nvidia.com/gpu"
BAD_LOGS = [
    Slurm.bad("slurm: an id of letters", "1019", "abc", "JobID", "an id like 101"),
    Slurm.bad("slurm: a blank id", "1019", "", "JobID", "an id like 101"),
    Slurm.bad("slurm: a negative id", "1019", "-1", "JobID", "an id like 101"),
    Slurm.bad("slurm: an unknown state", "COMPLETED", "DONE", "State", "'DONE'"),
    Slurm.bad("slurm: a blank state", "COMPLETED", "", "State", "a state"),
    Slurm.bad("slurm: no submission", "2024-03-01T01:00:00", "Unknown", "Submit", "a time"),
    Slurm.bad("slurm: a day that is not", "2024-03-01T01:10:00", "2024-02-30T01:10:00", "Start", "a time like"),
    Slurm.bad("slurm: a month that is not", "2024-03-01T01:00:00", "2024-13-01T01:00:00", "Submit", "a time like"),
    Slurm.bad("slurm: another form of time", "2024-03-01T01:10:00", "03/01/24-01:10", "Start", "a time like"),
    Slurm.bad("slurm: start before submission", "2024-03-01T01:10:00", "2024-03-01T00:10:00", "Start", "submission"),
    Slurm.bad("slurm: end before start", "2024-03-01T02:10:00", "2024-03-01T01:05:00", "End", "not before the start"),
    Slurm.bad("slurm: a negative run time", "|3600|", "|-3600|", "ElapsedRaw", "a duration"),
    Slurm.bad("slurm: a run time in words", "|3600|", "|an hour|", "ElapsedRaw", "a duration"),
    Slurm.bad("slurm: 61 seconds", "|3600|", "|00:59:61|", "ElapsedRaw", "a duration"),
    Slurm.bad("slurm: a limit in words", "|120|", "|long|", "TimelimitRaw", "a duration"),
    Slurm.bad("slurm: half a node", "|1|8|", "|0.5|8|", "NNodes", "a whole number"),
    Slurm.bad("slurm: cores in words", "|1|8|", "|1|eight|", "NCPUS", "a whole number"),
    Slurm.bad("slurm: GPUs in words", "gres/gpu=2,mem", "gres/gpu=two,mem", "AllocTRES", "gres/gpu=two"),
    Slurm.bad("slurm: negative GPUs", "gres/gpu=2,mem", "gres/gpu=-2,mem", "AllocTRES", "gres/gpu=-2"),
    Slurm.bad("slurm: a field too few", "|1|8|", "|8|", None, "15 fields"),
    Slurm.bad("slurm: a field too many", "|1|8|", "|1|8|9|", None, "17 fields"),
    _slurm_header("slurm: no state", "State", "Stat", "State", "a column named State"),
    _slurm_header("slurm: no GPUs", "ReqTRES|AllocTRES", "Req|Alloc", "AllocTRES", "names GPUs"),
    _slurm_header("slurm: a column twice", "QOS", "User", "User", "2 columns"),
    Bad("slurm: only pending", f"{SLURM_HEADER}\n{SLURM_JOB}\n".replace("COMPLETED", "PENDING").encode(),
        None, None, "no job that ran", "sacct.txt"),
    Bad("slurm: no rows", f"{SLURM_HEADER}\n".encode(), None, None, "no jobs", "sacct.txt"),
    Bad("slurm: no headings", f"{SLURM_JOB}\n".encode(), 1, None, "--noheader", "sacct.txt"),
    Bad("slurm: the columns of a terminal", b"JobID           JobName  Partition\n------------ ---------- ---------\n",
        1, None, "sacct --parsable2", "sacct.txt"),
    Bad("slurm: commas", f"{SLURM_HEADER}\n{SLURM_JOB}\n".replace("|", ",").encode(), 1, None, "sacct --parsable2",
        "sacct.csv"),
    Bad("philly: machines", b"machineId, number of GPUs, single GPU mem\nm1,2, 12GB\n", 1, None,
        "Philly's list of machines, expected its jobs, cluster_job_log", "cluster_machine_list"),
    Bad("openb: nodes", b"sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\n", 1, None,
        "openb's list of nodes, expected its jobs, openb_pod_list", "openb_node_list.csv"),
    Bad("spot: nodes", b"node_name,gpu_model,gpu_capacity_num,cpu_num\n0,A10,1,128\n", 1, None,
        "list of nodes, expected its jobs, job_info_df.csv", "node_info_df.csv"),
    Bad("squeue", b"             JOBID PARTITION     NAME     USER ST\n", 1, None, "looks like squeue", "jobs.txt"),
    Bad("a snapshot", b'{"jobs": [{"job_id": 1}]}\n', 1, None, "forecast and decide read squeue --json", "squeue.json"),
    Bad("a web page", b"<!DOCTYPE html>\n<html></html>\n", 1, None, "a web page", "log.csv"),
    Bad("a pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", 1, None, "Git LFS", "log.csv"),
    Swf.bad("swf: 17 fields", " 1 -1 -1", " 1 -1", None, "17 fields"),
    Swf.bad("swf: 19 fields", " 1 -1 -1", " 1 -1 -1 -1", None, "19 fields"),
    Swf.bad("swf: a word", " 3600 ", " hour ", "run time", "'hour'"),
    Swf.bad("swf: not a number", " 3600 ", " nan ", "run time", "'nan'"),
    Swf.bad("swf: infinity", " 3600 ", " inf ", "run time", "'inf'"),
    Swf.bad("swf: an exponent", " 3600 ", " 3e3 ", "run time", "'3e3'"),
    Swf.bad("swf: a negative submission", " 0 30 ", " -5 30 ", "submit time", "seconds >= 0"),
    Swf.bad("swf: a wait below -1", " 0 30 ", " 0 -30 ", "wait time", "-1 where it is unknown"),
    Swf.bad("swf: a run time below -1", " 3600 ", " -3600 ", "run time", "-1 where it is unknown"),
    Swf.bad("swf: processors below -1", " 3600 16 ", " 3600 -16 ", "allocated processors", "-1 where"),
    Swf.bad("swf: a huge number", " 3600 ", f" {'9' * 30} ", "run time", "a number"),
    Swf.bad("swf: commas", " 3600 16 ", ",3600,16,", None, "15 fields"),
    Swf.bad("swf: no processors", " 16 -1 -1 16 ", " -1 -1 -1 -1 ", "allocated processors", "for a job that ran"),
    Bad("swf: an id twice", f"{SWF_HEADER}{SWF_JOB}\n{SWF_JOB}\n".encode(), 5, "job_id", "line 4", "log.swf"),
    Bad("swf: only comments", SWF_HEADER.encode(), None, None, "no jobs", "log.swf"),
    Helios.bad("helios: negative GPUs", ",4,16,", ",-4,16,", "gpu_num", "a whole number"),
    Helios.bad("helios: half a GPU", ",4,16,", ",0.5,16,", "gpu_num", "a whole number"),
    Helios.bad("helios: cores in words", ",4,16,", ",4,many,", "cpu_num", "a whole number"),
    Helios.bad("helios: no submission", "2020-06-01 10:00:00", "None", "submit_time", "a time like"),
    Helios.bad("helios: a day that is not", "2020-06-01 10:00:30", "2020-06-31 10:00:30", "start_time", "a time like"),
    Helios.bad("helios: hour 25", "2020-06-01 11:00:30", "2020-06-01 25:00:30", "end_time", "a time like"),
    Helios.bad("helios: end before start", "2020-06-01 11:00:30", "2020-06-01 10:00:29", "end_time", "the start"),
    Helios.bad("helios: start too early", "2020-06-01 10:00:30", "2020-05-01 10:00:30", "start_time", "submission"),
    Helios.bad("helios: a negative duration", ",3600,", ",-1,", "duration", "a number >= 0"),
    Helios.bad("helios: a duration in words", ",3600,", ",long,", "duration", "a number"),
    Helios.bad("helios: a field too few", ",4,16,", ",4,", None, "11 fields"),
    Helios.bad("helios: a field too many", ",4,16,", ",4,16,1,", None, "13 fields"),
    Helios.bad("helios: a blank id", "119", "", "job_id", "not blank"),
    Helios.bad("helios: a blank user", "u1", "", "user", "not blank"),
    Bad("helios: an id twice", f"{HELIOS_HEADER}\n{HELIOS_JOB}\n{HELIOS_JOB}\n".encode(), 3, "job_id", "line 2",
        "cluster_log.csv"),
    Bad("helios: no node_num", HELIOS_HEADER.replace("node_num", "nodes").encode() + b"\n", 1, "node_num",
        "named node_num", "cluster_log.csv"),
    Bad("helios: only jobs that never ran", f"{HELIOS_HEADER}\n{HELIOS_JOB}\n".replace(",3600,", ",0,").encode(),
        None, None, "no job that ran", "cluster_log.csv"),
    ACME.bad("acme: negative GPUs", ",8,128,", ",-8,128,", "gpu_num", "a whole number"),
    ACME.bad("acme: a zone that is not", "04:50:30+08:00", "04:50:30+99:00", "start_time", "a time like"),
    ACME.bad("acme: no submission", "2023-03-01 04:50:00+08:00", "", "submit_time", "a time like"),
    ACME.bad("acme: start too early", "04:50:30", "04:49:30", "start_time", "submission"),
    ACME.bad("acme: end too early", "04:52:30", "04:50:10", "end_time", "the start"),
    ACME.bad("acme: a duration in words", ",120,", ",long,", "duration", "a number"),
    ACME.bad("acme: a field too many", ",Other,", ",Other,x,", None, "14 fields"),
    OPENB.bad("openb: more than a GPU", ",460,", ",1460,", "gpu_milli", "from 1 to 1,000"),
    OPENB.bad("openb: nothing of a GPU", ",460,", ",0,", "gpu_milli", "from 1 to 1,000"),
    OPENB.bad("openb: half a GPU in num_gpu", ",1,460,", ",0.5,460,", "num_gpu", "a whole number"),
    OPENB.bad("openb: deleted before it ran", ",900,", ",101,", "deletion_time", "the start"),
    OPENB.bad("openb: scheduled before it came", ",105.0", ",99.0", "scheduled_time", "submission"),
    OPENB.bad("openb: cores in words", ",6000,", ",six,", "cpu_milli", "a whole number"),
    OPENB.bad("openb: a date", ",100,900,", ",2020-01-01,900,", "creation_time", "a number"),
    SPOT.bad("spot: an unknown type", ",HP", ",High", "job_type", "HP or Spot"),
    SPOT.bad("spot: no workers", ",1,4,", ",1,0,", "worker_num", "a whole number >= 1"),
    SPOT.bad("spot: negative GPUs", ",1,4,", ",-1,4,", "gpu_request", "a number >= 0"),
    SPOT.bad("spot: a duration in words", ",100000,", ",long,", "duration", "a number >= 0"),
    SPOT.bad("spot: a blank submission", ",0,100000,", ",,100000,", "submit_time", "a number >= 0"),
    _kubernetes("no name", '"name": "train-1", ', "", "metadata.name", "text"),
    _kubernetes("a name that is a number", '"name": "train-1"', '"name": 7', "metadata.name", "text"),
    _kubernetes("no kind", ' "kind": "Workload",', "", "kind", "text"),
    _kubernetes("a day that is not", "2024-03-01T10:05", "2024-02-30T10:05", "start", "a time like"),
    _kubernetes("a quantity in words", '"4"}, "req', '"four"}, "req', LIMITS, "a quantity"),
    _kubernetes("a negative quantity", '"4"}, "req', '"-4"}, "req', LIMITS, "a quantity"),
    _kubernetes("half a pod", '"count": 2', '"count": 1.5', "spec.podSets.count", "a whole number"),
    _kubernetes("too many pods", '"count": 2', '"count": 99999999', "spec.podSets.count", "to 1,000,000"),
    _kubernetes("pod sets that are text", '"podSets": [{', '"podSets": "none", "x": [{', "spec.podSets", "a list"),
    _kubernetes("conditions of numbers", '"conditions": [\n', '"conditions": [1,\n', "status.conditions", "objects"),
    _kubernetes("not a number", '"count": 2', '"count": NaN', None, "the constant NaN"),
    _kubernetes("a comma too many", '"count": 2,', '"count": 2,,', None, "no JSON", line=6),
    _kubernetes("ended before it started", "2024-03-01T11:05", "2024-03-01T10:02", "completionTime", "the start"),
    Bad("kubernetes: cut short", b'{"apiVersion": "v1", "items": [', 1, None, "the end of the file", "jobs.json"),
    Bad("kubernetes: no items", b'{"apiVersion": "v1", "items": []}', None, None, "no jobs", "jobs.json"),
    Bad("kubernetes: two documents", b'{"apiVersion": "v1", "items": []} {}', 1, None, "the end of the file",
        "jobs.json"),
    Bad("kubernetes: only pods", b'[{"apiVersion": "v1", "kind": "Pod"}]', None, None,
        "no job that ran (objects left out that are neither Jobs", "jobs.json"),
    Bad("kubernetes: deep", b'{"apiVersion": "v1", "items": [{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", 1,
        None, "too deeply", "jobs.json"),
]  # fmt: skip
"""More than ninety files: Slurm, SWF, Helios, Acme, openb, spot, Kubernetes, and what is no log."""
