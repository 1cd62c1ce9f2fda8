"""Each fault of `benchmarks.mutants` can still be planted, where some test looks; so can drawn mutants."""

from collections import Counter

import parso

from benchmarks import drawn_mutants
from benchmarks.drawn_mutants import changed, in_words, is_equivalent, without_effect
from benchmarks.equivalent_mutants import EQUIVALENT
from benchmarks.mutants import planted
from benchmarks.mutants_list import MUTANTS, Mutant
from tests.conftest import ROOT


def test_each_fault_has_one_place_and_tests() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 60
    for mutant in MUTANTS:
        sound = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert planted(sound, mutant) != sound
        assert all((ROOT / test).is_file() for test in mutant.tests), mutant.name


def test_files_of_drawn_mutants_and_their_tests_exist() -> None:
    for file, tests in drawn_mutants.TESTS.items():
        assert (ROOT / file).is_file()
        assert all((ROOT / "tests" / f"{test}.py").is_file() for test in tests.split()), file


def test_each_equivalent_mutant_changes_a_line_that_is_there() -> None:
    sources = {
        file: " ".join(line.strip() for line in (ROOT / file).read_text(encoding="utf-8").splitlines())
        for file in drawn_mutants.TESTS
    }
    gone = [each.sound for each in EQUIVALENT if each.sound not in sources[each.file]]
    assert gone == []
    assert all(each.faulty != each.sound and each.reason for each in EQUIVALENT)


def test_an_equivalent_mutant_is_known_wherever_its_line_has_moved() -> None:
    for each in EQUIVALENT:
        sound, faulty = (f"x = 1\n    {line}\n" for line in (each.sound, each.faulty))
        assert is_equivalent(Mutant("moved", each.file, sound, faulty, ()))
        assert not is_equivalent(Mutant("worse", each.file, sound, f"{faulty}x = 2\n", ()))


def test_the_changed_lines_are_those_that_differ() -> None:
    assert changed("a\n  b\nc\n", "a\n  d\nc\n") == ("b", "d")
    assert changed("a\n\n@b\nc\n", "a\nc\n") == ("@b", "")


def test_annotations_assertions_and_texts_of_errors_are_not_mutated() -> None:
    source = (
        "def f(a: int | None = 1, *, b: str | int) -> int | str:\n"
        "    c: int | None = 2\n"
        "    assert a is not None or 3\n"
        "    if a > 4:\n"
        "        raise ValueError(f'{a + 5}', 6)\n"
        "    return f'{7}'\n"
    )
    leaf, mutated = parso.parse(source).get_first_leaf(), []  # type: ignore[no-untyped-call]
    while leaf := leaf.get_next_leaf():
        if (leaf.type == "number" or leaf.value in ("|", "+", ">", "*")) and not without_effect(leaf):
            mutated.append(leaf.value)
    assert mutated == ["1", "2", ">", "4", "6", "7"]


def test_the_score_leaves_out_equivalent_mutants() -> None:
    assert in_words(Counter(seen=9, survived=1, equivalent=5)) == "9 of 10 seen (90 %), 5 equivalent"
    assert in_words(Counter(equivalent=2)) == "0 of 0 seen (100 %), 2 equivalent"
