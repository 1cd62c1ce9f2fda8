"""Copies of the columns that policies see, so that no hidden data is in adjacent memory."""

import numpy as np

MIN_ROOM = 64  # initial capacity of a column, in jobs


class Shadow:
    """Columns of the jobs that have arrived, filled as they arrive.

    A policy may read beyond the end of an array, or follow its `base`: it finds copies of what it is shown, and zeros.
    What it writes there changes nothing but these copies.
    """

    def __init__(self, jobs: np.ndarray) -> None:
        """Create empty columns for jobs, none of which has arrived."""
        self._jobs = jobs
        self._columns: dict[str, tuple[np.ndarray, int]] = {}  # memory, and the number of jobs in it

    def column(self, field: str, arrived: int) -> np.ndarray:
        """Return a field of the first `arrived` jobs: shape (arrived,), read-only."""
        truth = self._jobs[field]
        memory, known = self._columns.get(field, (np.zeros(MIN_ROOM, truth.dtype), 0))
        if known < arrived:
            if arrived > len(memory):
                memory = np.concatenate([memory[:known], np.zeros(2 * arrived - known, truth.dtype)])
            memory.flags.writeable = True
            memory[known:arrived] = truth[known:arrived]
            memory.flags.writeable = False
            self._columns[field] = memory, arrived
        return memory[:arrived]


def snapshot(array: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be made writable, since its memory is immutable."""
    copied: np.ndarray = np.frombuffer(array.tobytes(), array.dtype)
    return copied
