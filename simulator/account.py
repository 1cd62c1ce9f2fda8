"""What happened in an episode: who held which GPUs, from when to when, in which phase, and totals over time."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.kernel import account
from gpu_cluster_gym.simulator.kernel.account import Kept, room_for, with_more_room
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PHASES

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode

LIVED = ("queued", "reserved", "loading", "running", "pausing", "restarting")
"""The phases of a job from its submission to its end."""

SEGMENTS = {
    "job": "row of the job in the job table",
    "phase": "one of `LIVED`; a paused job is queued again",
    "from_s": "when it began",
    "to_s": "when it ended",
    "holding": "row of what the job held, in `Account.holdings`; -1 where it held nothing",
    "num_gpus": "GPUs held; 0 without any",
    "cores": "CPU cores held for each GPU, or as a whole where the job held no GPU",
    "throttle": "level of a CPU job, 1 for none",
    "shared": "share of its GPUs that others held too, while it ran; 0 in other phases",
    "node": "node of a job that held cores without GPUs, else -1",
}
"""The columns of `Account.segments`. Times are seconds."""

HOLDINGS = {
    "job": "row of the job in the job table",
    "from_s": "when it was started",
    "to_s": "when it had to leave, or was done",
    "gpus": "the GPUs, a tuple of their indices in order; none for a job on CPU cores",
    "workers": "workers it had",
    "servers": "parameter servers it had",
    "node": "node of a job that held cores without GPUs, else -1",
}
"""The columns of `Account.holdings`. Times are seconds."""

OVER_TIME = {
    "time_s": "from this time on, until that of the next row",
    "present": "jobs submitted and not done",
    "queued": "jobs in the queue, paused ones included",
    "reserved": "jobs for which GPUs are kept that pausing jobs still hold",
    "restarting": "jobs that have failed and are not queued again yet",
    "held_gpus": "GPUs that any job holds",
    "running_gpus": "GPUs of running jobs, one that is shared once for each",
    "idle_gpus": "the same of jobs that load or pause",
    "busy_gpus": "the same of running jobs, each times its speed over that with plenty of cores, alone and close",
    "cores": "CPU cores that jobs hold",
    "memory_gib": "memory that jobs take of all GPUs together, GiB",
}
"""The columns of `Account.over_time`, a row for each time at which something happens."""


class Account:
    """What happened in one episode, taken down by `simulator.episode.run(policy, episode, account=account)`.

    It is no view: it holds what is true, and is read when the episode is over. Taking it down changes no result.

    The segments of a job follow one another from its submission to its end without a gap. Where a job left GPUs and was
    started again at the same time there are two holdings; a start that a failure undid at the same time is none.

    Batsim's evalys reads a table of jobs, with one row for each time that a job held something. Of a row of `holdings`,
    `starting_time` is `from_s`, `finish_time` is `to_s` and `allocated_resources` is `gpus`, written as intervals
    (`0-3 6`); `job_id`, `submission_time` and `requested_number_of_resources` are `job_id`, `submit_s` and `num_gpus`
    of the row `job` of the job table.
    """

    def __init__(self) -> None:
        """Take down nothing yet."""
        self._kept: Kept | None = None

    def begin(self, episode: "Episode") -> None:
        """Prepare to take an episode down; ValueError if it has begun, or another has been taken down here."""
        if self._kept is not None:
            raise ValueError("an account is of one episode: make another for this one")
        if episode.state.instant > 0:
            raise ValueError(
                f"the episode has come to {episode.state.clock:g} s: an account begins before its first instant"
            )
        self._kept = room_for(len(episode.jobs), int(episode.state.num_gpus))
        self._kept.seen["since"] = episode.jobs["submit_s"]

    def note(self, episode: "Episode") -> None:
        """Take down what this instant of the episode has changed, when all is done that is done in it."""
        while not account.note(episode.states, 0, episode.jobs, self._arrays):
            self._kept = with_more_room(self._arrays)

    def run_rule(self, episode: "Episode") -> bool:
        """Carry out the ranking in force to the end of the episode; tell whether every job ended."""
        while (how := account.run_rule(episode.states, 0, episode.jobs, self._arrays)) == account.FULL:
            self._kept = with_more_room(self._arrays)
        return bool(how == account.ENDED)

    @property
    def _arrays(self) -> Kept:
        if self._kept is None:
            raise ValueError("nothing has been taken down: give the account to `simulator.episode.run`")
        return self._kept

    def _written(self, name: str) -> np.ndarray:
        """Return the rows of an array that have been written."""
        array: np.ndarray = getattr(self._arrays, name)
        return array[: self._arrays.counts[name][0]]

    def _segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the segments by (job, time), and the written row of each holding in the order of its first."""
        segments = self._written("segments")
        segments = segments[np.lexsort((segments["from_s"], segments["job"]))]
        held = segments["holding"] != NOBODY
        rows, first = np.unique(segments["holding"][held], return_index=True)
        rows = rows[np.argsort(first)]
        number = np.full(len(self._written("holdings")), NOBODY)
        number[rows] = np.arange(len(rows))
        segments["holding"][held] = number[segments["holding"][held]]
        return segments, rows

    def segments(self) -> pd.DataFrame:
        """Return a row for each time in which nothing changed about a job, by (job, time); columns: `SEGMENTS`."""
        segments, _ = self._segments()
        holdings = self.holdings()
        at = segments["holding"]
        held = at != NOBODY
        num_gpus, node = np.zeros(len(at), np.int64), np.full(len(at), NOBODY)
        num_gpus[held] = holdings["gpus"].map(len).to_numpy(np.int64)[at[held]]
        node[held] = holdings["node"].to_numpy()[at[held]]
        phase = pd.Categorical(np.array(PHASES)[segments["phase"]], categories=LIVED)
        found = {"phase": phase, "num_gpus": num_gpus, "node": node}
        return pd.DataFrame(
            {name: found[name] if name in found else segments[name].copy() for name in SEGMENTS}
        )

    def holdings(self) -> pd.DataFrame:
        """Return a row for each time that a job held something, by (job, time); columns: `HOLDINGS`.

        `explode("gpus")` makes a row for each GPU of it.
        """
        segments, rows = self._segments()
        holdings, gpus = self._written("holdings"), self._written("gpus").tolist()
        ends = holdings["gpus_end"]
        begins = np.concatenate([[0], ends[:-1]])
        held = segments[segments["holding"] != NOBODY]
        number = np.arange(len(rows))
        first = np.searchsorted(held["holding"], number)
        last = np.searchsorted(held["holding"], number, side="right") - 1
        lists = [tuple(sorted(gpus[begins[row] : ends[row]])) for row in rows]
        found = {
            "from_s": held["from_s"][first],
            "to_s": held["to_s"][last],
            "gpus": pd.Series(lists, dtype=object),
        }
        return pd.DataFrame(
            {name: found[name] if name in found else holdings[name][rows] for name in HOLDINGS}
        )

    def over_time(self) -> pd.DataFrame:
        """Return the totals from each time on at which something happened; columns: `OVER_TIME`."""
        totals = self._written("totals")
        return pd.DataFrame({name: totals[name].copy() for name in OVER_TIME})
