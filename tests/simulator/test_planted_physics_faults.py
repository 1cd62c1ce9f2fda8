"""The plain account finds faults planted into the physics."""

from collections.abc import Iterator

import pytest

from tests.cases.mixed_jobs import Whims
from tests.simulator.physics_faults import FAULTS
from tests.simulator.test_laws_physics import twins_of
from tests.simulator.test_planted_faults import Fault, plant

PLAYED = [
    ("late peaks, newcomers", 1),
    ("elastic", 0),
    ("failures", 0),
    ("all", 0),
    ("no sharing", 2),
    ("late peaks", 1),
    ("three a GPU", 0),
    ("sharing", 0),
    ("types", 1),
    ("links", 0),
    ("exchange", 0),
    ("start-up", 0),
]


def differences(first: str = "") -> Iterator[str]:
    """Yield the differences between some random episodes and their accounts, one configuration before all others."""
    for config, seed in sorted(PLAYED, key=lambda played: played[0] != first):
        twins = twins_of(config, seed, 16)
        yield from twins.play(Whims(twins.legal, seed, 200))


@pytest.mark.parametrize(
    ("call", "found_by", "fault", "first"),
    FAULTS,
    ids=[f"{fault.__name__}-{call}" for call, _, fault, _ in FAULTS],
)
def test_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, call: str, found_by: str, fault: Fault, first: str
) -> None:
    plant(monkeypatch, call, fault)
    assert any(found_by in difference for difference in differences(first))


def test_nothing_is_found_where_nothing_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in {call for call, *_ in FAULTS}:
        plant(monkeypatch, call, lambda *_: None)
    assert list(differences()) == []
