"""Each fault of `benchmarks.mutants` can still be planted, where some test looks."""

from benchmarks.mutants import planted
from benchmarks.mutants_list import MUTANTS
from tests.conftest import ROOT


def test_each_fault_has_one_place_and_tests() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 60
    for mutant in MUTANTS:
        sound = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert planted(sound, mutant) != sound
        assert all((ROOT / test).is_file() for test in mutant.tests), mutant.name
