"""Named random streams: no two share draws, and an additional draw changes no other."""

import hashlib
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster_gym import traces
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.traces import _fill, _streams, stream
from gpu_cluster_gym.workloads import Scenario, Split, Window, full_trace, prepare, seed_of_jobs, windows
from tests.cases.some_jobs import some_jobs
from tests.project.test_architecture import product as product_sources

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = st.lists(st.text(max_size=3) | st.integers(-9, 99), max_size=3).map(tuple)
SEEDS, NUMBERS = range(6), range(40)
GRID = list(product(SEEDS, get_args(Split), NUMBERS))


@given(st.integers(0, 99), NAMES, st.integers(0, 99), NAMES)
def test_only_the_same_names_share_a_stream(
    one: int, names: tuple[str | int, ...], other: int, too: tuple[str | int, ...]
) -> None:
    alike = (one, *names) == (other, *too)
    assert (_streams.entropy(one, *names) == _streams.entropy(other, *too)) == alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, "a", 2), (1, "a", "2")),
        ((1, "a", "b"), (1, "ab")),
        ((1, 1, 2), (1, 12)),
        ((1, 2, "x"), (2, 1, "x")),
        ((1, 'a", "b'), (1, "a", "b")),
        ((1,), (1, "")),
    ],
)
def test_different_names_have_different_streams(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert stream(*one).random() != stream(*other).random()


def test_numbers_of_any_kind_are_the_same_name() -> None:
    assert stream(np.int64(3), "a", np.int32(5)).random() == stream(3, "a", 5).random()
    for wrong in (1.0, None):
        with pytest.raises(TypeError):
            stream(0, wrong)  # type: ignore[arg-type]


def test_a_stream_is_the_same_on_every_machine_and_day() -> None:
    """The hash is fixed here, so that no change alters random draws unnoticed."""
    drawn = int.from_bytes(hashlib.blake2b(b'[7, "window", 3]', digest_size=16).digest(), "big")
    assert stream(7, "window", 3).random() == np.random.default_rng(drawn).random()


def test_the_seed_cannot_be_read_back() -> None:
    """Neither a policy's generator nor its entropy reveals the scenario's seed."""
    episode = prepare(
        filled_jobs(), Scenario(seed=1234, physics="exclusive"), window=Window("test", 5)
    ).episode()
    kept = str(episode.view.rng.bit_generator.seed_seq)
    assert "1234" not in kept
    assert int(episode.state.seed) > 2**32


# Windows.


def filled_jobs() -> pd.DataFrame:
    """Return eight jobs with all columns that can be drawn."""
    return traces.fill(some_jobs(8), seed=0, largest_gpu_gib=16.0)


def test_a_small_seed_is_found_by_trying_and_a_large_one_is_not() -> None:
    """What SECURITY.md says of seeds: numbers drawn suffice for trying, whatever else a generator shows."""

    def found(seed: int) -> list[int]:
        drawn = traces.stream(seed, "view").integers(2**63)
        return [tried for tried in range(300) if traces.stream(tried, "view").integers(2**63) == drawn]

    assert found(271) == [271]
    assert found(4_611_686_018_427_387_847) == []


def test_no_two_windows_share_a_seed() -> None:
    """Seed 1's window n and seed 0's window n + 1 would, if seeds and numbers were added up."""
    table = filled_jobs()
    jobs = {seed_of_jobs(Scenario(seed=seed), Window(split, number)) for seed, split, number in GRID}
    assert len(jobs) == len(GRID)
    few = [(seed, split, number) for seed, split, number in GRID if number < 10]
    episodes = [
        prepare(table, Scenario(seed=seed, physics="exclusive"), window=Window(split, number)).episode()
        for seed, split, number in few
    ]
    for drawn in ("seed", "rng_state"):
        assert len({int(episode.state[drawn]) for episode in episodes}) == len(few)
    assert len({tuple(episode.state.node_rng_state[:8]) for episode in episodes}) == len(few)
    assert len({episode.view.rng.random() for episode in episodes}) == len(few)


def test_a_full_trace_shares_no_seed_with_a_window() -> None:
    chosen = Scenario(trace="xion_small", cluster="1x2", jobs=8, full_trace=True)
    first = windows(Scenario(trace="xion_small", cluster="1x2", jobs=8, all_windows=True), "train", 1)
    assert not full_trace(chosen).table["duration_s"].equals(first[0].table["duration_s"])


def test_one_table_holds_windows_of_one_split() -> None:
    loads = [prepare(filled_jobs(), Scenario(), window=Window(split, 0)) for split in ("test", "train")]
    with pytest.raises(ValueError, match="expected windows of one split, got test and train"):
        runner.simulate({"fifo": lambda: Ranking("submit")}, loads)


def test_all_random_draws_use_named_streams() -> None:
    """Confidence intervals are excepted: their seeds do not affect the simulation."""
    apart = {"traces/_streams.py", "evaluation/comparison.py"}
    assert {
        path for path in product_sources() if "default_rng" in (ROOT / path).read_text(encoding="utf-8")
    } == apart


# Columns.


@pytest.mark.parametrize("place", [0, 7, len(traces.COLUMNS)])
def test_a_new_column_changes_no_other(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled_jobs()
    new = replace(traces.COLUMNS[-1], name="brand_new")
    columns = (*traces.COLUMNS[:place], new, *traces.COLUMNS[place:])
    monkeypatch.setattr(_fill, "COLUMNS", columns)
    monkeypatch.setitem(_fill._DRAWS, "brand_new", lambda job: job.stream("brand_new").random(job.rows))
    after = filled_jobs()
    assert "brand_new" in after
    for name in before:
        assert before[name].equals(after[name]), name
