"""Random invalid edits of logs are refused with their place; `python -m benchmarks.bad_logs` tries 20,000 of them."""

from pathlib import Path

import pytest

from benchmarks import bad_logs
from gpu_cluster_gym import traces


@pytest.mark.parametrize("found", bad_logs.FORMATS, ids=lambda found: found.file)
def test_the_logs_are_good_before_an_edit(tmp_path: Path, found: bad_logs.Format) -> None:
    (tmp_path / "pai_task_table.csv").write_text(
        "j1,worker,1.0,Terminated,1100.0,4000.0,600.0,29.0,100.0,T4\n"
    )
    file = tmp_path / found.file
    file.write_text(bad_logs.good(found))
    assert len(traces.load(file=file, seed=0)) == (1 if "pai" in found.file else bad_logs.JOBS)


def test_random_invalid_edits_are_refused_in_one_sentence(tmp_path: Path) -> None:
    faults = {
        edit.text: found for edit in bad_logs.edits(500, seed=1) if (found := bad_logs.fault(edit, tmp_path))
    }
    assert faults == {}


def test_a_reader_that_repairs_in_silence_is_found(tmp_path: Path) -> None:
    edit = bad_logs.Edit("jobs.csv", "job_id,submit_s,num_gpus,duration_s\na,0,1,60\n", 2, "submit_s")
    assert bad_logs.fault(edit, tmp_path) == "read in silence"
    wrong = bad_logs.Edit("jobs.csv", "job_id,submit_s,num_gpus,duration_s\na,x,1,60\n", 2, "num_gpus")
    assert "expected line 2, column num_gpus" in str(bad_logs.fault(wrong, tmp_path))
