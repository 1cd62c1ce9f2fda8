"""Account of an episode: which job held which GPUs from when to when, in which phase, and totals over time."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.interrupts import interruptible
from gpu_cluster_gym.simulator.kernel import account
from gpu_cluster_gym.simulator.kernel.account import AccountArrays, room_for, with_more_room
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PHASES

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode

LIVED = ("queued", "reserved", "loading", "running", "pausing", "restarting")
"""Phases of a job from its submission to its end."""

SEGMENTS = {
    "job": "row of the job in the job table",
    "phase": "one of `LIVED`; a paused job is queued again; a job that waits for others counts as queued",
    "from_s": "start of the segment",
    "to_s": "end of the segment",
    "holding": "row of the resources that the job held, in `Account.holdings`; -1 for none",
    "num_gpus": "GPUs held; 0 for none",
    "cores": "CPU cores held per GPU, or in total if the job held no GPU",
    "throttle": "speed level of a CPU job, 1 if unthrottled",
    "shared": "fraction of its GPUs that other jobs also held, while it ran; 0 in other phases",
    "node": "node of a job that held cores without GPUs, else -1",
}
"""Columns of `Account.segments`. Times are seconds."""

HOLDINGS = {
    "job": "row of the job in the job table",
    "from_s": "time of the start",
    "to_s": "time of the release",
    "gpus": "GPU indices, a tuple in ascending order; empty for a job on CPU cores",
    "workers": "number of workers",
    "servers": "number of parameter servers",
    "node": "node of a job that held cores without GPUs, else -1",
}
"""Columns of `Account.holdings`. Times are seconds."""

OVER_TIME = {
    "time_s": "start of the interval, which lasts until the next row",
    "present": "jobs submitted and not finished",
    "queued": "queued jobs, paused ones and those that wait for other jobs included",
    "reserved": "jobs with reserved GPUs that pausing jobs still hold",
    "restarting": "failed jobs that are not queued again yet",
    "held_gpus": "GPUs held by any job",
    "running_gpus": "GPUs of running jobs, a shared GPU counting once per job",
    "idle_gpus": "GPUs of loading or pausing jobs, counted in the same way",
    "busy_gpus": "GPUs of running jobs, weighted by speed relative to the undisturbed speed with plenty of cores",
    "cores": "CPU cores held by jobs",
    "memory_gib": "GPU memory allocated by jobs, GiB",
}
"""Columns of `Account.over_time`, one row per time at which something happens."""


class Account:
    """Account of one episode, recorded by `simulator.episode.run(policy, episode, account=account)`.

    It contains the truth, not a view, and is read after the episode. Recording changes no result.

    The segments of a job follow one another without a gap from its submission to its end. A job that was
    restarted at the time of its release has two holdings; a start undone by a failure at the same time has
    none.

    For Batsim's evalys, which reads one row per allocation, rename the columns of `holdings`: `from_s` is
    `starting_time`, `to_s` is `finish_time`, and `gpus`, written as intervals (`0-3 6`), is
    `allocated_resources`. `job_id`, `submit_s` and `num_gpus` of the row `job` of the job table are `job_id`,
    `submission_time` and `requested_number_of_resources`.
    """

    def __init__(self) -> None:
        """Create an empty account."""
        self._kept: AccountArrays | None = None
        self._episode: Episode | None = None

    def begin(self, episode: "Episode") -> None:
        """Prepare to record an episode, unless this account does so already.

        ValueError if the episode has already started, or if this account records another one.
        """
        if self._episode is episode:
            return
        if self._kept is not None:
            raise ValueError("this account already records an episode; create another Account")
        if episode.state.instant > 0:
            raise ValueError(
                f"the episode is already at {episode.state.clock:g} s; an account must be attached before it starts"
            )
        self._episode = episode
        self._kept = room_for(len(episode.jobs), int(episode.state.num_gpus))
        self._kept.seen["since"] = episode.jobs["submit_s"]

    def note(self, episode: "Episode") -> None:
        """Record what the current instant of the episode has changed, after all its actions."""
        while not account.note(episode.states, 0, episode.jobs, self._arrays):
            self._kept = with_more_room(self._arrays)

    def run_rule(self, episode: "Episode") -> bool:
        """Carry out the active ranking to the end of the episode; return whether every job finished."""
        while (how := self._run_rule(episode)) == account.FULL:
            self._kept = with_more_room(self._arrays)
        return bool(how == account.ENDED)

    def _run_rule(self, episode: "Episode") -> int:
        states = episode.states
        return int(interruptible(states, account.run_rule, states, 0, episode.jobs, self._arrays))

    @property
    def _arrays(self) -> AccountArrays:
        if self._kept is None:
            raise ValueError("this account is empty; pass it to `simulator.episode.run`")
        return self._kept

    def _written(self, name: str) -> np.ndarray:
        """Return the rows of an array written so far."""
        array: np.ndarray = getattr(self._arrays, name)
        return array[: self._arrays.counts[name][0]]

    def _segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the segments by (job, time), and the written rows of holdings in the order of their first segments."""
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
        """Return one row per interval without changes to a job, by (job, time); columns: `SEGMENTS`."""
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
        """Return one row per allocation of a job, by (job, time); columns: `HOLDINGS`.

        `explode("gpus")` makes one row per GPU.
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
        """Return the totals over time, one row per time at which something happened; columns: `OVER_TIME`."""
        totals = self._written("totals")
        return pd.DataFrame({name: totals[name].copy() for name in OVER_TIME})
