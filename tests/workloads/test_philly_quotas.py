"""The benchmark of Philly's log with quotas prints waits, GPUs held and active nodes; checked on six jobs by hand."""

from pathlib import Path

import pytest

from benchmarks import philly_quotas

JOBS = """job_id,vc,submitted_time,submit_s,num_gpus,duration_s
0,a,2017-10-03 00:00:00,0,8,100
1,b,2017-10-03 00:00:00,0,2,50
2,a,2017-10-03 00:00:10,10,8,100
3,b,2017-10-03 00:00:20,20,2,30
4,b,2017-10-03 00:02:40,160,1,5
5,b,2017-10-03 00:03:20,200,8,10
"""


def test_figures_of_six_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On two nodes, a may hold 12 GPUs and b 4: C waits 90 s, F, of 8 GPUs, is dropped. Without, C waits 40 s.

    quotas   m0  A 0-100, C 100-200            none   m0  A 0-100
             m1  B 0-50, D 20-50, E 160-165           m1  B 0-50, D 20-50, C 50-150, E 160-165, F 200-210
    """
    (tmp_path / "philly_jobs.csv").write_text(JOBS, encoding="utf-8")
    (tmp_path / "philly_vc_nodes.csv").write_text("vc,node num\na,3\nb,1\n", encoding="utf-8")
    nodes = "time,active,total\n2017-10-03 00:00:00,1,4\n2017-10-03 00:03:00,2,4\n2017-10-04 00:00:00,4,4\n"
    (tmp_path / "philly_node_sequence.csv").write_text(nodes, encoding="utf-8")
    philly_quotas.main([str(tmp_path), "--cluster", "2x8"])
    lines = capsys.readouterr().out.splitlines()
    # Of 16 GPUs x 200 s, A and C hold 1,600 GPU-s, B and D 160, E 5. The last quarter begins at 150 s.
    assert "| fifo | by nodes | none | 18.0 s, 0 s, 55 %, 1.3 | 0.0 s, 0 s, 51 %, 1.1 | 1 |" in lines
    assert "| fifo | none |  | 6.7 s, 0 s, 55 %, 1.3 | 0.0 s, 0 s, 1 %, 0.1 | 0 |" in lines
    assert lines[-1] == "nodes that ran a job by the log: 1.5, 2.0"
