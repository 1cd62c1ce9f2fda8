"""Mutants drawn at random: `.venv/tools/bin/python -m benchmarks.drawn_mutants [--seed N] [--count N] [--only WORD]`.

The operators of Cosmic Ray change one place of a file in `TESTS`: an operator, a comparison, a number, a condition, a
loop, a decorator or an exception. Each file has the same share of the draw, and each of its places the same chance.
Places that no test can see are left out: annotations, assertions, and the text of errors. As in `benchmarks.mutants`, a
mutant is planted into a copy of the checkout, and seen if a test fails, does not start or does not end. Prints a line
per mutant, the score by file and the survivors; exit code 1 if the score is below `TARGET`. Mutants in
`benchmarks/equivalent_mutants.py`, which change no result, do not count. 100 mutants take about ten minutes.
"""

import argparse
import random
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from benchmarks.equivalent_mutants import EQUIVALENT
from benchmarks.forked_tests import ForkedTests
from benchmarks.mutants import MORE_S, ROOT, SLOWER, copied
from benchmarks.mutants_list import Mutant

TARGET = 0.95
MEMORY_BYTES = 12 << 30
"""Address space that tests of a mutant may use, since a mutant may ask for any amount."""
TESTS = {
    "evaluation/comparison.py": "evaluation/test_comparison evaluation/test_agent_comparison",
    "evaluation/metrics.py": "evaluation/test_metrics",
    "evaluation/verdict.py": "evaluation/test_parts_of_a_verdict evaluation/test_verdict",
    "agents/timed_ppo.py": "agents/test_timed_ppo",
    "traces/slurm.py": "traces/test_log_boundaries traces/test_logs traces/test_snapshot",
    "traces/_times.py": "traces/test_log_boundaries traces/test_logs traces/test_snapshot",
    "traces/_delimited.py": "traces/test_log_boundaries traces/test_logs traces/test_traces traces/test_snapshot",
    "traces/swf.py": "traces/test_log_boundaries traces/test_logs traces/test_snapshot",
    "traces/philly.py": "traces/test_philly traces/test_log_boundaries",
    "workloads/_steady.py": "workloads/test_steady",
}
"""The files that are mutated, and the test files in which a mutant has to be seen."""


def places(source: str) -> dict[tuple[Any, Any], list[tuple[Any, int]]]:
    """Return the places of a source that can be mutated, with their operators and numbers of occurrence."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    provider = OperatorProvider()
    operators = [provider[name]() for name in provider if not provider[name].arguments()]
    found, counts = defaultdict(list), Counter[Any]()
    for node in ast_nodes(get_ast(source)):
        skipped = without_effect(node)
        for operator in operators:
            for place in operator.mutation_positions(node):
                if not skipped:
                    found[place].append((operator, counts[operator]))
                counts[operator] += 1
    return found


def without_effect(node: Any) -> bool:
    """Return whether a node of a syntax tree is part of an annotation, an assertion, or the text of an error.

    So is a mark between parameters, such as `*`, which is no operator.
    """
    text = False
    while (parent := node.parent) is not None:
        text |= node.type == "fstring"
        before = node.get_previous_sibling()
        if (
            node.type in ("tfpdef", "assert_stmt")
            or (parent.type in ("annassign", "funcdef") and before in (":", "->") and node.type != "suite")
            or (node.type == "raise_stmt" and text)
            or (parent.type == "parameters" and node.type == "operator")
            or (node.type == "if_stmt" and node.children[1].get_code().strip() == "TYPE_CHECKING")
        ):
            return True
        node = parent
    return False


def mutants(file: str, rng: random.Random) -> Iterator[Mutant]:
    """Yield mutants of a file, each at another place, in random order."""
    from cosmic_ray.mutating import mutate_code

    source = (ROOT / file).read_text(encoding="utf-8")
    tests = tuple(f"tests/{name}.py" for name in TESTS[file].split())
    found = sorted(places(source).items(), key=lambda each: each[0])
    rng.shuffle(found)
    for (start, _), ways in found:
        operator, occurrence = rng.choice(ways)
        try:
            faulty = mutate_code(source, operator, occurrence)
        except AttributeError:  # Cosmic Ray cannot replace an exception with a dot in its name
            continue
        if faulty and is_valid(faulty):
            before, after = changed(source, faulty)
            yield Mutant(f"{file}:{start[0]}: {before}  ->  {after}", file, source, faulty, tests)


def is_valid(source: str) -> bool:
    """Return whether a source has no error of syntax, which would be seen without any test."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def changed(sound: str, faulty: str) -> tuple[str, str]:
    """Return the lines that differ, of both sources, without indentation and blank lines."""
    old, new = sound.splitlines(), faulty.splitlines()
    first = next(n for n, (one, other) in enumerate(zip_longest(old, new)) if one != other)
    last = next(n for n, (one, other) in enumerate(zip_longest(reversed(old), reversed(new))) if one != other)
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    before, after = (" ".join(filter(None, map(str.strip, lines))) for lines in (old, new))
    return before, after


def drawn(seed: int, count: int, only: str = "") -> list[Mutant]:
    """Return random mutants, equally many of each file, or of those files with a word in their name."""
    each = [mutants(file, random.Random(f"{seed} {file}")) for file in TESTS if only in file]
    turns = (mutant for turn in zip_longest(*each) for mutant in turn if mutant is not None)
    return list(islice(turns, count))


def is_equivalent(mutant: Mutant) -> bool:
    """Return whether a mutant is in the list of those that change no result."""
    before, after = changed(mutant.sound, mutant.faulty)
    return any((each.file, each.sound, each.faulty) == (mutant.file, before, after) for each in EQUIVALENT)


def limits(tests: ForkedTests, mutants: Sequence[Mutant]) -> dict[tuple[str, ...], float]:
    """Return the time limit of each set of tests, s, from a run without a mutant; ValueError where some fail then."""
    found = {}
    for each in dict.fromkeys(mutant.tests for mutant in mutants):
        began = time.monotonic()
        if code := tests.code(*each, limit_s=3600):
            raise ValueError(f"These tests fail without a mutant (code {code} of pytest): {' '.join(each)}")
        found[each] = SLOWER * (time.monotonic() - began) + MORE_S
    return found


def is_seen(copy: Path, tests: ForkedTests, mutant: Mutant, limit_s: float) -> bool:
    """Plant a mutant into a copy, run its tests, and take it out again."""
    file = copy / mutant.file
    file.write_text(mutant.faulty, encoding="utf-8")
    try:
        return tests.code(*mutant.tests, limit_s=limit_s) != 0
    finally:
        file.write_text(mutant.sound, encoding="utf-8")


def main(args: Sequence[str] | None = None) -> int:
    """Draw mutants, run their tests, and print which are not seen; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draw (default: 0)")
    parser.add_argument(
        "--count", type=int, default=100, metavar="N", help="number of mutants (default: 100)"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="files with this in their name")
    parser.add_argument(
        "--python",
        default=str(ROOT / ".venv/bin/python"),
        metavar="FILE",
        help="interpreter that has the project's dependencies (default: that of .venv)",
    )
    chosen = parser.parse_args(args)
    try:
        mutants = drawn(chosen.seed, chosen.count, chosen.only)
    except ImportError as error:
        print(f"{error}: this benchmark requires Cosmic Ray, which `make tools` installs into .venv/tools")
        return 1
    if not Path(chosen.python).exists():
        print(f"{chosen.python}: no such interpreter (run `make test` once, or use --python)")
        return 1
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    counts: dict[str, Counter[str]] = {mutant.file: Counter() for mutant in mutants}
    survivors = []
    with copied() as copy, closing(ForkedTests(copy, chosen.python)) as tests:
        try:
            limits_s = limits(tests, mutants)
        except ValueError as error:
            print(error)
            return 1
        for mutant in mutants:
            if is_equivalent(mutant):
                found = "equivalent"
            else:
                found = "seen" if is_seen(copy, tests, mutant, limits_s[mutant.tests]) else "survived"
            print(f"{found:10}  {mutant.name}", flush=True)
            counts[mutant.file][found] += 1
            if found == "survived":
                survivors.append(mutant.name)
    for file, count in counts.items():
        print(f"{file}: {in_words(count)}")
    overall = sum(counts.values(), Counter[str]())
    print(f"seed {chosen.seed}, all files: {in_words(overall)}")
    if survivors:
        print("\n".join(["Not seen:", *survivors]))
    return 0 if score(overall) >= TARGET else 1


def score(count: Counter[str]) -> float:
    """Return the share of mutants that are seen, of those that are not equivalent; 1 if there are none."""
    return count["seen"] / max(count["seen"] + count["survived"], 1) if count["survived"] else 1.0


def in_words(count: Counter[str]) -> str:
    """Return a score in words."""
    judged = count["seen"] + count["survived"]
    return f"{count['seen']} of {judged} seen ({100 * score(count):.0f} %), {count['equivalent']} equivalent"


if __name__ == "__main__":
    sys.exit(main())
