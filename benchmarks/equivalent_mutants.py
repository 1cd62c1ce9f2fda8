"""Drawn mutants that are equivalent, which `benchmarks.drawn_mutants` does not count, each with the reason."""

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A mutant that no test can or should see: the changed lines without indentation, and the reason."""

    file: str
    sound: str
    faulty: str
    reason: str


CHOICE = "a limit or number of our choice, of which no result depends on the last digit"
EQUIVALENT = (
    Equivalent("evaluation/comparison.py", "RESAMPLES = 9_999", "RESAMPLES = 10000", CHOICE),
    Equivalent(
        "evaluation/comparison.py",
        "@lru_cache(maxsize=4)",
        "",
        "the cache saves time, and what it keeps follows from the arguments",
    ),
    Equivalent(
        "evaluation/comparison.py",
        "return compare(agents[0], references[0], seed=seed)",
        "return compare(agents[0], references[ -1], seed=seed)",
        "there are as many references as agents: one",
    ),
    Equivalent(
        "evaluation/metrics.py",
        "@dataclass(frozen=True)",
        "@dataclass(frozen=False)",
        "a guard against writing, which type checkers see too",
    ),
    Equivalent(
        "evaluation/verdict.py",
        "varied = order.std() > 0 and our_order.std() > 0",
        "varied = order.std() != 0 and our_order.std() > 0",
        "a standard deviation is never negative",
    ),
    Equivalent(
        "evaluation/verdict.py",
        "last = max(np.ceil(round(passed.max(), 6)) - 1, 0)",
        "last = max(np.ceil(round(passed.max(), 6)) - 1, 1)",
        "a log has at least ten blocks, or one time of submission, whose block is 0 either way",
    ),
    Equivalent(
        "evaluation/verdict.py",
        "last = max(np.ceil(round(passed.max(), 6)) - 1, 0)",
        "last = max(np.ceil(round(passed.max(), 7)) - 1, 0)",
        CHOICE,
    ),
    Equivalent(
        "traces/slurm.py",
        "groups = frame[several].groupby(keys, sort=False)",
        "groups = frame[several].groupby(keys, sort=True)",
        "each group is merged by itself, in any order of groups",
    ),
    Equivalent(
        "traces/slurm.py",
        "elif piece := SLICE.search(match[1]):",
        "elif piece := SLICE.search(match[ 0]):",
        "of the whole entry, only the type can have the form of a slice",
    ),
    Equivalent(
        "traces/_delimited.py",
        "end = len(body) if end < 0 else end + 1",
        "end = len(body) if end <= 0 else end + 1",
        "the end of a line is sought some bytes after the begin",
    ),
    Equivalent(
        "traces/_delimited.py",
        'first_line = data.count(b"\\n", 0, begin) + 1',
        'first_line = data.count(b"\\n", 1, begin) + 1',
        "the first byte is no end of a line, which is refused before",
    ),
    Equivalent("workloads/_steady.py", "MAX_CHOICES = 200", "MAX_CHOICES = 199", CHOICE),
    Equivalent("workloads/_steady.py", "MAX_DRAWS = 200", "MAX_DRAWS = 199", CHOICE),
    Equivalent(
        "workloads/_steady.py",
        'while (last := float(table["submit_s"].iloc[-1])) < end_s:',
        'while (last := float(table["submit_s"].iloc[- 2])) < end_s:',
        "more jobs are generated than needed, and cut at the end",
    ),
    Equivalent(
        "workloads/_steady.py",
        "if rates and offered < scenario.steady_load:",
        "if rates and offered <= scenario.steady_load:",
        "with exactly the stated load the draw is taken, and no other one follows",
    ),
    Equivalent(
        "workloads/_steady.py",
        "order = rng.permutation(batch.max() + 1)",
        "order = rng.permutation(batch.max() + 2)",
        "a batch without jobs in a random order of batches: another draw of the same distribution",
    ),
    Equivalent(
        "workloads/_steady.py",
        "stretch = stretch_of(workloads[0].scenario)",
        "stretch = stretch_of(workloads[ -1].scenario)",
        "all windows of a heading have one scenario",
    ),
)
