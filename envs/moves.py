"""The action `moves`: choose the next move from a list that the rule `union` proposes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs.batch import LOAD_SPACE, PERCENT, UnionBatch, clipped_load
from gpu_cluster_gym.envs.env import UnionEnv
from gpu_cluster_gym.envs.spaces import MaskedDiscrete, Part, numbered
from gpu_cluster_gym.envs.validation import boolean, time_constant, weights, whole_number
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.moves import move_steps, rollouts
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES, KINDS, MAX_MOVES, list_dtype
from gpu_cluster_gym.simulator.kernel.moves.rollouts import POLICY, RolloutBuffers
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead, as_words, rollout_workspace
from gpu_cluster_gym.simulator.rule_policy import HIGHEST, LOWEST, Offsets

QUEUED_JOBS, RUNNING_JOBS = 4, 4  # jobs whose moves are listed
ALL = -1  # in place of an index: all moves of a list


class Move(NamedTuple):
    """A listed move: its kind, its job, the GPUs that the job gets, and the jobs paused for it."""

    kind: str
    job: int
    gpus: tuple[int, ...]
    victims: tuple[int, ...]


class MoveSizes(NamedTuple):
    """Lengths of a list of moves, as the kernel takes them."""

    queued_jobs: int
    running_jobs: int
    max_moves: int
    cores: bool


def move_sizes(queued_jobs: Any, running_jobs: Any, max_moves: Any, cores: Any) -> MoveSizes:
    """Return the sizes for keywords of `MovesEnv`; ValueError for an invalid one."""
    queued = whole_number("queued_jobs", queued_jobs, minimum=0)
    running = whole_number("running_jobs", running_jobs, minimum=0)
    if not 3 <= whole_number("max_moves", max_moves) <= MAX_MOVES:
        raise ValueError(f"max_moves {max_moves}: expected a whole number from 3 to {MAX_MOVES}")
    return MoveSizes(queued, running, max_moves, boolean("cores", cores))


class MovesBatch(UnionBatch):
    """Environments of the action `moves`.

    lists: records (N,) of `simulator.kernel.moves.move_list`, the moves to choose from.
    """

    def __init__(
        self,
        windows: Sequence[PreparedWindow],
        count: int,
        *,
        queued_jobs: int = QUEUED_JOBS,
        running_jobs: int = RUNNING_JOBS,
        max_moves: int = MAX_MOVES,
        base_weights: Mapping[str, float] | None = None,
        cores: bool = False,
        reward: str | Callable[..., Any] = "gain",
        futures: int = 8,
        tau_s: float | None = 3600.0,
        illegal: str = "next_legal",
        mask: str = "info",
        threads: int = 1,
    ) -> None:
        """Allocate the records; see `MovesEnv` for the keywords."""
        self.sizes = move_sizes(queued_jobs, running_jobs, max_moves, cores)
        super().__init__(windows, count, reward=reward, illegal=illegal, mask=mask, threads=threads)
        self._base = Offsets(changed(self.reference, weights("base_weights", base_weights)), ())
        self._ahead = LookAhead(
            draws=whole_number("futures", futures), tau_s=time_constant("tau_s", tau_s)
        ).options
        self._spaces: list[RolloutBuffers] = []  # buffers for simulated futures, one per thread
        self.lists, self._chosen = np.zeros(count, list_dtype()), np.zeros(count, np.int64)
        self._sizes = np.array(self.sizes)
        self.action_space = MaskedDiscrete(max_moves)
        self.seen_parts = {
            "moves": Part(FEATURES, max_moves),
            "load": Part(LOAD),
            "mask": Part(numbered("move", max_moves)),
        }
        self.seen_space = Dict(
            {
                "moves": Box(LOWEST, HIGHEST, (max_moves, len(FEATURES)), np.float32),
                "load": LOAD_SPACE,
                "mask": Box(0, 1, (max_moves,), np.int8),
            }
        )

    def open(self, e: int, prepared: PreparedWindow) -> None:
        """Advance to the first list of moves."""
        self._base.reset(self.memory[e : e + 1])
        self._chosen[e] = -1
        self._run(slice(e, e + 1))

    def _simulate(self, actions: np.ndarray) -> None:
        """Carry out the chosen moves, and run the rule to the next lists."""
        self.more &= ~self.over
        self._chosen[:] = actions
        self.in_threads(self._run)

    def _run(self, part: slice) -> None:
        records = self.states[part], self.memory[part], self.lists[part], self.jobs[part], self._chosen[part]
        move_steps.step(*records, self._sizes, *self.rows(part))

    def _own(self, actions: np.ndarray) -> np.ndarray:
        """Return whether each move is the one that the rule would make."""
        own: np.ndarray = actions == self.lists["own"]
        return own

    def masks(self) -> np.ndarray:
        """Return 1 for each index of a list that holds a move: int8 (N, max_moves)."""
        return masks_of(self.lists, self.sizes.max_moves)

    def observe(self) -> Any:
        """Return the moves, the load and the mask."""
        return observed(self.lists, self.load, self.sizes.max_moves)

    def num_unseen(self) -> np.ndarray:
        """Return the number of queued jobs beyond those whose starts are listed: int64 (N,)."""
        unseen: np.ndarray = np.maximum(
            self.states["num_queued"].astype(np.int64) - self.sizes.queued_jobs, 0
        )
        return unseen

    def _advantage(self, actions: np.ndarray) -> np.ndarray:
        advantages_s = self.rollout_advantages_s(actions)[np.arange(self.count), actions]
        found: np.ndarray = PERCENT * (advantages_s / self.total)
        return found

    def advantages_s(self, kinds: Sequence[str] = KINDS) -> np.ndarray:
        """Return the advantage of each move over the rule's own choice, job-seconds: float64 (N, max_moves).

        It is the mean over `futures` simulated futures (`simulator.kernel.moves.rollouts`), which use no true run
        times. Moves of other kinds than `kinds`, and indices without a move, have 0.
        """
        return self.rollout_advantages_s(np.full(self.count, ALL), kinds)

    def rollout_advantages_s(self, places: np.ndarray, kinds: Sequence[str] = KINDS) -> np.ndarray:
        """Return the advantages of one index of each list, int64 (N,), or of ALL; 0 for moves not simulated."""
        tried, live = np.array([kind in kinds for kind in KINDS]), self.more & ~self.over

        def work(part: slice) -> None:
            space = self._acquire_space()
            for e in range(part.start, part.stop):
                if live[e]:
                    states, lists = self.states[e : e + 1], self.lists[e : e + 1]
                    opened = self._filled(space, e)
                    rollouts.evaluate_listed(states, lists, opened, places[e], tried, self._ahead)
            self._spaces.append(space)

        self.in_threads(work)
        found: np.ndarray = self.lists["advantage_sum"] / np.maximum(self.lists["num_futures"], 1)
        there = (masks_of(self.lists, MAX_MOVES) > 0) & live[:, None]
        return np.where(there, found, 0.0)[:, : self.sizes.max_moves]

    def _acquire_space(self) -> RolloutBuffers:
        """Return buffers that no other thread uses."""
        try:
            return self._spaces.pop()
        except IndexError:
            memory = np.zeros(2, self.memory.dtype)
            return rollout_workspace(self.states[:1], self.jobs[0], memory).buffers

    def _filled(self, space: RolloutBuffers, e: int) -> RolloutBuffers:
        """Return the buffers with the current state of an environment, and its memory."""
        space.memory_words[POLICY] = as_words(self.memory[e : e + 1])[0]
        return space._replace(now=as_words(self.states[e : e + 1]), jobs_now=as_words(self.jobs[e]))

    def moves(self, e: int) -> list[Move]:
        """Return the listed moves of an environment in words."""
        v = self.lists[e]
        return [
            Move(
                KINDS[v["kind"][k]],
                int(v["job"][k]),
                tuple(v["gpus"][k, : v["num_gpus"][k]].tolist()),
                tuple(v["victims"][k, : v["num_victims"][k]].tolist()),
            )
            for k in range(int(v["num"]))
        ]


def masks_of(lists: np.ndarray, max_moves: int) -> np.ndarray:
    """Return 1 for each of the first `max_moves` indices of a list that holds a move: int8 (N, max_moves)."""
    return (np.arange(max_moves) < lists["num"][:, None]).astype(np.int8)


def observed(lists: np.ndarray, load: np.ndarray, max_moves: int) -> dict[str, np.ndarray]:
    """Return the observation of lists of moves, (N,), and of the load, (N, len(LOAD)), as new arrays."""
    mask = masks_of(lists, max_moves)
    moves = np.clip(lists["features"][:, :max_moves], LOWEST, HIGHEST) * (mask > 0)[:, :, None]
    return {"moves": moves, "load": clipped_load(load), "mask": mask}


class MovesEnv(UnionEnv):
    """Choose each move from a short list: starts, pauses, migrations and, with `cores=True`, core and throttle changes.

    ## Description
    At each instant the rule `union` (`simulator.rule_policy.Rule`) lists the moves worth considering, and the agent
    chooses one after another until it waits. CPU jobs, cores and throttles follow the rule, unless `cores=True`.
    Instants at which only waiting is possible are skipped.

    ## Action Space
    MaskedDiscrete(max_moves), int64: the index of a listed move. Listed are:
    - starts of the first `queued_jobs` jobs in the rule's order: for each number of workers, on the cheapest shared
      GPUs, on exclusive GPUs, in place of the cheapest victims, and on CPU cores.
    - migrations and pauses of the `running_jobs` jobs that would gain most.
    - waiting for the next event, or for a minute.
    - with `cores=True`: the rule's division of cores, which then happens only if it is chosen, and one core more or
      less, or one level of throttling, for each of the `running_jobs` jobs furthest from their demand.
    `moves()` returns the list in words. The mask is `info["action_mask"]`, or `action_masks()`.

    ## Observation Space
    Dict of `moves`, float32 (max_moves, features), a row per move, whose first feature is 1 for the move that the rule
    would make; `load`, float32 (loads,), as for `SteerEnv`; and `mask`, int8 (max_moves,). `columns` names every
    entry. With `mask="observation"`: Dict of `observations` and `action_mask`, int8 (max_moves,).

    ## Rewards
    In units of `info["scale"]`, 1 % of the default rule's total JCT on the window, s:
    - `gain` (default) and `jct`: as for `SteerEnv`.
    - `rollout_advantage`: the mean advantage of the move over the rule's own choice in `futures` simulated futures. Run
      times are drawn from their estimates, no job arrives, the rule continues, and job-seconds are discounted by
      `tau_s`. It takes milliseconds per step. `advantages_s()` returns it for all moves.

    ## Starting State
    As for `GPUClusterEnv`.

    ## Episode End
    Terminated when all jobs are done, in a steady window when those that count are done. Truncated when jobs never end,
    or after 1,000 instants per job.

    ## Information
    As for `GPUClusterEnv`. The reference policy is the default rule; `agrees` is True for the move that the rule with
    `base_weights` would make.

    ## Arguments
    - `workload`, `scenario`, `split`, `count`, `illegal`, `mask`, `render_mode`: as for `GPUClusterEnv`.
    - `reward`: `gain`, `jct`, `rollout_advantage`, another module of `envs/rewards`, or a function.
    - `default_weights`: weights of the default rule, the reference policy, that differ from `union`'s, by name.
    - `base_weights`: weights of the rule that lists moves and continues in simulated futures, where they differ from
      the default rule's, by name.
    - `queued_jobs`: number of queued jobs whose starts are listed.
    - `running_jobs`: number of running jobs whose migrations and pauses are listed.
    - `max_moves`: maximum length of the list, 3 to 40.
    - `cores`: whether core and throttle changes are moves too.
    - `futures`: number of simulated futures per move.
    - `tau_s`: time constant of the discount in simulated futures, s; None disables discounting.
    """

    batch: MovesBatch
    kind = MovesBatch

    def moves(self) -> list[Move]:
        """Return the listed moves, by index."""
        return self.batch.moves(0)

    def advantages_s(self) -> np.ndarray:
        """Return the advantage of each move over the rule's own choice, job-seconds: float64 (max_moves,).

        Indices without a move have 0: apply the mask.
        """
        found: np.ndarray = self.batch.advantages_s()[0]
        return found

    @property
    def own_choice(self) -> int:
        """Index of the move that the rule would make."""
        return int(self.batch.lists["own"][0])
