"""The room to learn is measured with the run times redrawn, and luck is kept apart from room."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import room, room_moves
from benchmarks.room import Luck, Row
from benchmarks.room_moves import Tried
from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.agent_policy import PlainAgent
from gpu_cluster_gym.envs.floors import FLOORS, FirstLegal
from gpu_cluster_gym.envs.moves import MovesEnv
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named, windows
from gpu_cluster_gym.workloads._steady import TOLERANCE
from tests.conftest import ROOT


def test_redrawn_run_times_keep_estimates_and_exchange_errors() -> None:
    """Among sixteen jobs of similar estimate, so that the errors of a window are the same set."""
    (load,) = windows(replace(named("philly_backlog"), all_windows=True, jobs=80), "test", 1)
    before, after = load.table, room.redrawn(load, 1).table
    kept = ["submit_s", "num_gpus", "profiled_duration_s", "predictable_from"]
    assert after[kept].equals(before[kept])
    errors = [np.sort(each["duration_s"] / each["profiled_duration_s"]) for each in (before, after)]
    np.testing.assert_allclose(errors[0], errors[1])
    changed = after["duration_s"] != before["duration_s"]
    assert changed.mean() > 0.5
    ratios = [each["predicted_duration_s"] / each["duration_s"] for each in (before, after)]
    np.testing.assert_allclose(ratios[0], ratios[1], err_msg="a later estimate is as good as it was")
    assert not room.redrawn(load, 2).table["duration_s"].equals(after["duration_s"])


def test_what_was_luck_is_gone_on_other_draws() -> None:
    """The second setting is better by .2 in the first window and worse in the second: always, or in even draws."""
    real = np.array([[[1.0] * 4, [0.8] * 4], [[1.0] * 4, [1.2] * 4]])
    assert room.luck_of(real) == pytest.approx(Luck(0.1, 0.1, 0.1))
    luck = np.array([[[1.0] * 4, [0.8, 1.2] * 2], [[1.0] * 4, [1.2, 0.8] * 2]])
    assert room.luck_of(luck) == pytest.approx(Luck(-0.1, 0.0, 0.1))


def rows(ahead: tuple[float, float, float], luck: tuple[float, float, float]) -> list[Row]:
    """Return the rows of a workload on which look-ahead and weights by window gain so much."""
    usual = [Row("w", name, name, 9, 1.5, 1.4, 1.6, 1.25, 2.0) for name in (*FLOORS, "fifo")]
    best = Row("w", room.BEST, "srtf", 9, 1.2, 1.1, 1.3, 1.0, 1.0, 100.0, 25.0)
    own = [Row("w", name, name, 9, 1.0, 1.0, 1.0) for name in (room.UNION, room.CONSTANTS)]
    more = [Row("w", room.AHEAD, room.AHEAD, 4, *ahead), Row("w", "load", "", 9, 0.8, 0.0, 0.0)]
    return [*usual, best, *own, *more, Row("w", "luck split", "", 9, *luck)]


@pytest.mark.parametrize(
    ("ahead", "luck", "verdict"),
    [
        ((0.9, 0.85, 0.94), (0.0, 0.1, 0.1), "room ("),
        ((0.9, 0.85, 0.96), (0.0, 0.1, 0.1), "perhaps room"),
        ((0.99, 0.98, 1.0), (0.06, 0.004, 0.1), "room ("),
        ((0.99, 0.98, 1.0), (0.01, 0.004, 0.1), "no room seen"),
    ],
)
def test_a_workload_has_room_where_a_gain_is_certain(
    ahead: tuple[float, float, float], luck: tuple[float, float, float], verdict: str
) -> None:
    (line,) = room.verdicts(rows(ahead, luck))
    assert line.startswith(f"- `w`: {verdict}")


def test_the_load_of_a_steady_window_is_the_stated_one() -> None:
    """Over all its days, and not only over the time between the first and the last submission."""
    few = replace(named("quick"), warm_days=0.25, counted_days=0.25, after_days=0.5, cluster="1x8")
    (load,) = windows(few, "test", 1)
    assert room.load_of(load) == pytest.approx(1.0, abs=TOLERANCE)


def test_floors_with_hints_act_where_a_rule_chooses_the_victims() -> None:
    """As an agent of that environment that is asked move by move, which is another implementation."""
    (load,) = windows(replace(named("philly_backlog"), all_windows=True, jobs=60, cluster="2x8"), "test", 1)
    asked = PlainAgent(lambda observation, legal: legal.argmax(), hints=True, victims_by="rule")
    by_moves = load.results(run(asked, load.episode()))
    floor = load.results(run(room.HintedFirst(), load.episode()))
    assert floor["finish_s"].tolist() == by_moves["finish_s"].tolist()
    assert floor["jct_s"].mean() < load.results(run(FirstLegal(), load.episode()))["jct_s"].mean()


def test_the_page_has_the_kept_numbers() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text("utf-8")
    found = room.kept(ROOT)
    assert found
    for line in room.room_table(found):
        assert line in page
    moves = room_moves.kept(ROOT)
    assert len(moves) > 2
    for row in moves:
        assert f"{row.correlation:.2f} on `{row.workload}`" in page


def test_the_page_says_what_the_kept_numbers_say() -> None:
    """That no workload has room, in its own words."""
    page = (ROOT / "docs" / "workloads.md").read_text("utf-8")
    assert "None has:" in page
    found = {line.partition(": ")[2].partition(" (")[0] for line in room.verdicts(room.kept(ROOT))}
    assert found == {"no room seen", "not measured."}


def test_the_command_measures_a_workload_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(baselines, "quick_names", lambda: ["fifo", "sjf"])
    monkeypatch.setattr(room, "SETTINGS", 3)
    (tmp_path / "docs").mkdir()
    text = f"<!-- {room.MARK}: begin -->\n<!-- {room.MARK}: end -->\n"
    (tmp_path / "docs" / "workloads.md").write_text(text, encoding="utf-8")
    few = ["--windows", "2", "--ahead", "0", "--redraws", "2", "--root", str(tmp_path), "--write"]
    room.main(["--workload", "xion_small", *few])
    room.main(["--workload", "xonar_mix", *few])
    found = dict(room.by_workload(room.kept(tmp_path)))
    assert [*found] == ["xion_small", "xonar_mix"]
    assert found["xonar_mix"][room.BEST].name.startswith("sjf")
    assert found["xonar_mix"][runner.BOUND].ratio < 1
    assert "| xonar_mix |" in capsys.readouterr().out


# Single moves.


def test_moves_are_tried_in_simulated_futures_and_in_the_true_one() -> None:
    few = {"jobs": 24, "all_windows": True, "physics": "exclusive", "cluster": "4x8"}
    found = room_moves.tried_in("philly_backlog", few, 1, 2, 4, 2)
    assert 4 <= len(found) <= 8
    assert all(each.best for each in found[::2])
    assert any(each.true_gain != 0 for each in found)
    env = MovesEnv(few, workload="philly_backlog", count=2)
    env.reset(options={"window": env.windows[1]})
    own_s, steps = room_moves.to_the_end(env)
    jct_s = env.results()["jct_s"]
    assert own_s == pytest.approx(jct_s.sum())
    assert steps > 8


def test_true_gains_are_those_of_the_jobs_that_count() -> None:
    """The results of a steady window have these alone; their JCT is less than the time of all jobs in the cluster."""
    days = {"warm_days": 0.25, "counted_days": 0.25, "after_days": 0.25, "cluster": "1x8"}
    env = MovesEnv(days, workload="quick", count=1)
    env.reset()
    own_s, _ = room_moves.to_the_end(env)
    assert own_s == pytest.approx(env.results()["jct_s"].sum())
    assert own_s < env.batch.states["present_seconds"][0]


def test_a_winner_is_certain_in_simulated_futures() -> None:
    """Gains 10 and 30, noise 8 and 6; true gains 0 and 40, of which the standard deviation is 28.28."""
    sure = [Tried("start", True, 10.0, 8.0, 4, 0.0), Tried("pause", True, 30.0, 6.0, 4, 40.0)]
    others = [Tried("wait", True, 5.0, 8.0, 4, 9.0), Tried("wait", False, 50.0, 1.0, 4, 9.0)]
    row = room_moves.row_of("w", [*sure, *others])
    assert (row.decisions, row.winners, row.kinds) == (3, 2, "start 1, pause 1")
    assert (row.gain, row.true_gain) == (20.0, 20.0)
    assert row.noise == pytest.approx(np.sqrt((64 + 36) / 2))
    assert row.true_samples == pytest.approx((2 * 28.284 / 20) ** 2, rel=1e-4)
    assert row.correlation == pytest.approx(np.corrcoef([10, 30, 5, 50], [0, 40, 9, 9])[0, 1])
    assert room_moves.table([row])[2].startswith("| w | 3 | 2 | start 1, pause 1 | 20 | 20 | 7 | 28 |")
