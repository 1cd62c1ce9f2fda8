"""The room to learn is measured with the run times redrawn, and luck is kept apart from room."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import room, room_moves
from benchmarks.room import Luck, Row
from benchmarks.room_moves import Tried
from gpu_cluster_gym.envs.agent_policy import PlainAgent
from gpu_cluster_gym.envs.floors import FLOORS, FirstLegal
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named, windows
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


def test_floors_with_hints_act_where_a_rule_chooses_the_victims() -> None:
    """As an agent of that environment that is asked move by move, which is another implementation."""
    (load,) = windows(replace(named("philly_backlog"), all_windows=True, jobs=60, cluster="2x8"), "test", 1)
    asked = PlainAgent(lambda observation, legal: legal.argmax(), hints=True, victims_by="rule")
    by_moves = load.results(run(asked, load.episode()))
    floor = load.results(run(room.HINTED["first_legal_hints"](), load.episode()))
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
    assert "No workload has room:" in page
    found = {line.partition(": ")[2].partition(" (")[0] for line in room.verdicts(room.kept(ROOT))}
    assert found == {"no room seen", "not measured."}


# Single moves.


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
