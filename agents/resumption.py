"""Resumption of a training run: its complete state between two rollouts, as arrays and JSON, which run no code.

A run that is resumed gives the weights and curves of one that was never interrupted, bit for bit. The state holds
weights, optimiser, counters, all random generators, the environments, the validations, the log entries not written yet,
and the lengths of the curves at that moment. The search by CMA-ES is replayed from its returns, without a simulation.
"""

import json
import math
import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as array_bytes
from stable_baselines3.common.logger import TensorBoardOutputFormat
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize

from gpu_cluster_gym.agents import integrity
from gpu_cluster_gym.agents.ppo import TwoPhases, moments_of, put_moments
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.evaluation.run_folder import RESUMABLE

STATE = f"state{integrity.WEIGHTS_SUFFIX}"
CURVES = "events.out.tfevents.*"
WHOLE = "whole"
"""Name of an observation that has no parts."""
NORMALIZED = ("returns", "old_obs", "old_reward")
"""Attributes of a normalisation that decide what comes next, in addition to its statistics."""
SHARE = 0.05
"""Share of the time of training that may be spent on writing states; the first is always written."""
Arrays = dict[str, np.ndarray]
Values = dict[str, Any]


def finished(out: Path) -> bool:
    """Return whether the training in a folder has reached its end."""
    return saved(out) and bool(_read(out)[1].get("finished"))


def saved(out: Path) -> bool:
    """Return whether a folder has a state; the digests of the first one are written last."""
    return (out / RESUMABLE / integrity.SUMS).exists()


def saved_steps(out: Path) -> int:
    """Return the number of steps at which a saved training continues; 0 where none is saved."""
    return int(_read(out)[1].get("steps", 0)) if saved(out) else 0


def note_finished(out: Path) -> None:
    """Replace the state in a folder, if any, by the note that training has reached its end."""
    if saved(out):
        _write(out, {}, {"finished": True})


class Resumption:
    """Saves the state of an algorithm between rollouts; where it resumes, it first restores the last one."""

    def __init__(self, model: TwoPhases, out: Path, *, resume: bool) -> None:
        """Read the last state, if the training is resumed, and cut the curves to it.

        model: algorithm with its environments.
        out: folder of the training.
        """
        self._model, self._out, self._next_s = model, out, -math.inf
        self._last = _read(out) if resume and saved(out) else None
        if resume:
            self._cut_curves()

    def begin(self, validations: Any) -> None:
        """Take the callback of validations, whose attributes are part of the state, and save from now on."""
        self._validations = validations
        self._model.between_rollouts = self.between_rollouts

    @property
    def resumes(self) -> bool:
        """Whether a state will be restored."""
        return self._last is not None

    def between_rollouts(self) -> None:
        """Restore the last state, once; otherwise save the current one, where that is due."""
        began_s = time.monotonic()
        if self._last:
            self._restore(*self._last)
            self._last = None
        elif began_s >= self._next_s:
            _write(self._out, *self._state())
            ended_s = time.monotonic()
            self._next_s = ended_s + (ended_s - began_s) * (1 / SHARE - 1)

    def _cut_curves(self) -> None:
        """Cut the curves of the folder to their lengths in the last state; delete the curves that began later."""
        lengths = self._last[1]["curves"] if self._last else {}
        for file in self._out.glob(CURVES):
            if file.name not in lengths:
                file.unlink()
                continue
            with file.open("r+b") as curve:
                curve.truncate(lengths[file.name])

    def _state(self) -> tuple[Arrays, Values]:
        """Return the current state."""
        model, validations = self._model, self._validations
        assert model.env is not None
        assert model.ep_info_buffer is not None
        arrays: Arrays = {"torch": torch.get_rng_state().numpy()}
        arrays |= {f"policy/{name}": it.numpy() for name, it in model.policy.state_dict().items()}
        arrays |= {f"optimizer/{name}": it for name, it in moments_of(model.policy.optimizer).items()}
        own = model.arrays()
        arrays |= {f"model/{name}": packed(it) for name, it in own.items()}
        kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - the generator of Stable-Baselines3
        arrays |= {"numpy": np.asarray(keys)}
        last: Any = model._last_obs
        parts = last if isinstance(last, dict) else {WHOLE: last}
        arrays |= {f"last/seen/{name}": np.asarray(part) for name, part in parts.items()}
        arrays |= {"last/starts": np.asarray(model._last_episode_starts)}
        for name, dtype in (("r", np.float32), ("l", np.int32)):
            arrays[f"episodes/{name}"] = np.array([each[name] for each in model.ep_info_buffer], dtype)
        for number, wrapper in enumerate(normalizers_of(model.env)):
            found = {name: getattr(wrapper, name) for name in NORMALIZED if hasattr(wrapper, name)}
            found |= {
                f"{rms}/{name}": it for rms, it in moments_seen(wrapper) for name, it in vars(it).items()
            }
            arrays |= {f"normalizers/{number}/{name}": np.asarray(it) for name, it in found.items()}
        generators = []
        for number, (monitor, envs) in enumerate(parts_of(model.env)):
            generators.append([each and each.bit_generator.state for each in envs._rngs])
            if not model.begins_anew:
                found = arrays_of(envs) | {
                    "returns": monitor.episode_returns,
                    "lengths": monitor.episode_lengths,
                }
                arrays |= {f"envs/{number}/{name}": packed(each) for name, each in found.items()}
        for each in model.logger.output_formats:
            if isinstance(each, TensorBoardOutputFormat):
                each.writer.flush()
        values = {
            "steps": model.num_timesteps,
            "updates": model._n_updates,
            "counters": {name: getattr(model, name) for name in model.counters},
            "remaining": model._current_progress_remaining,
            "random": random.getstate(),
            "numpy": [kind, *rest],
            "generators": generators,
            "model": {name: (it.dtype.str, it.shape) for name, it in own.items()},
            "generator": model._rng and model._rng.bit_generator.state,
            "validations": {name: getattr(validations, name) for name in validations.STATE},
            "log": {name: float(it) for name, it in model.logger.name_to_value.items()},
            "excluded": dict(model.logger.name_to_excluded),
            "curves": {file.name: file.stat().st_size for file in self._out.glob(CURVES)},
        }
        return arrays, values

    def _restore(self, arrays: Arrays, values: Values) -> None:
        """Set the algorithm, its environments, its validations and all generators to a state."""
        model, validations = self._model, self._validations
        assert model.env is not None
        assert model.ep_info_buffer is not None
        model.policy.load_state_dict(
            {name: torch.from_numpy(it) for name, it in below("policy", arrays).items()}
        )
        put_moments(model.policy.optimizer, below("optimizer", arrays))
        model.num_timesteps = model._num_timesteps_at_start = values["steps"]
        model._n_updates, model._current_progress_remaining = values["updates"], values["remaining"]
        for name, value in values["counters"].items():
            setattr(model, name, value)
        own = below("model", arrays)
        likes = {
            name: np.empty(shape, dtype) for name, (dtype, shape) in values["model"].items() if name in own
        }
        model.put_arrays({name: unpacked(own[name], like) for name, like in likes.items()})
        if model._rng:
            model._rng.bit_generator.state = values["generator"]
        for number, wrapper in enumerate(normalizers_of(model.env)):
            for name, it in below(f"normalizers/{number}", arrays).items():
                rms, _, moment = name.rpartition("/")
                setattr(getattr(wrapper, rms) if rms else wrapper, moment, it if it.shape else float(it))
        for number, (monitor, envs) in enumerate(parts_of(model.env)):
            envs._rngs = [each and generator(each) for each in values["generators"][number]]
            if found := below(f"envs/{number}", arrays):
                put_arrays(envs, found)
                monitor.episode_returns = unpacked(found["returns"], monitor.episode_returns)
                monitor.episode_lengths = unpacked(found["lengths"], monitor.episode_lengths)
        seen: Any = below("last/seen", arrays)
        model._last_obs, model._last_episode_starts = seen.get(WHOLE, seen), arrays["last/starts"]
        model.ep_info_buffer.clear()
        episodes = zip(arrays["episodes/r"], arrays["episodes/l"], strict=True)
        model.ep_info_buffer.extend({"r": returned, "l": length, "t": 0.0} for returned, length in episodes)
        for name, value in values["validations"].items():
            setattr(validations, name, value)
        model.logger.name_to_value.update(values["log"])
        excluded = {name: tuple(it) if it else it for name, it in values["excluded"].items()}
        model.logger.name_to_excluded.update(excluded)
        version, numbers, gauss = values["random"]
        random.setstate((version, tuple(numbers), gauss))
        kind, *rest = values["numpy"]
        np.random.set_state((kind, arrays["numpy"], *rest))  # noqa: NPY002
        torch.set_rng_state(torch.from_numpy(arrays["torch"]))


# Environments.


def parts_of(env: VecEnv) -> Iterator[tuple[VecMonitor, GPUClusterVectorEnv]]:
    """Yield the monitor and the vector environment of each batch."""
    for part in getattr(env, "parts", (env,)):
        monitor = next(each for each in layers_of(part) if isinstance(each, VecMonitor))
        envs = part.unwrapped
        assert isinstance(envs, ClusterVecEnv)
        yield monitor, envs.env


def normalizers_of(env: VecEnv) -> Iterator[VecNormalize]:
    """Yield the running normalisations of all batches together, then those of each."""
    for part in (env, *getattr(env, "parts", ())):
        yield from (each for each in layers_of(part) if isinstance(each, VecNormalize))


def layers_of(env: VecEnv) -> Iterator[VecEnv]:
    """Yield an environment and all that it wraps, the outermost first."""
    yield env
    while isinstance(env, VecEnvWrapper):
        env = env.venv
        yield env


def moments_seen(normalizer: VecNormalize) -> Iterator[tuple[str, Any]]:
    """Yield the running statistics of a normalisation, by attribute."""
    for name in ("obs_rms", "ret_rms"):
        if hasattr(normalizer, name):
            yield name, getattr(normalizer, name)


def arrays_of(envs: GPUClusterVectorEnv) -> Arrays:
    """Return the arrays of a batch, by attribute; those in a list by attribute and index."""
    found = {
        name: it for name, it in vars(envs.batch).items() if isinstance(it, np.ndarray) and it.dtype != object
    }
    times = vars(envs.batch).get("_times", [])
    return {name: it for name, it in found.items() if it.dtype.kind != "U"} | {
        f"_times/{k}": each for k, each in enumerate(times)
    }


def put_arrays(envs: GPUClusterVectorEnv, saved: Arrays) -> None:
    """Set the arrays of a batch to packed ones, in place; ValueError where their sizes differ."""
    batch: Any = envs.batch
    for e, window in enumerate(unpacked(saved["window"], batch.window).tolist()):
        batch.begin(e, window)  # records of a single environment are sized for its window
    for name, own in arrays_of(envs).items():
        if name.startswith("_times/"):
            left = zlib.decompress(saved[name].tobytes())
            batch._times[int(name.removeprefix("_times/"))] = np.frombuffer(left).copy()
        else:
            own.view(np.uint8)[:] = unpacked(saved[name], own).view(np.uint8)  # the padding of records too


def packed(array: np.ndarray) -> np.ndarray:
    """Return an array of any type as compressed bytes; records of environments and lists of moves are mostly zeros."""
    return np.frombuffer(zlib.compress(np.ascontiguousarray(array).tobytes(), level=1), np.uint8)


def unpacked(content: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return a packed array of the type and shape of another; ValueError for another size."""
    found = zlib.decompressobj().decompress(content.tobytes(), like.nbytes + 1)
    if len(found) != like.nbytes:
        raise ValueError(
            f"a stored array does not have {like.nbytes:,} bytes, as this version requires: start a new run"
        )
    return np.frombuffer(found, like.dtype).reshape(like.shape).copy()


def generator(state: Values) -> np.random.Generator:
    """Return a generator in a state."""
    made = np.random.Generator(np.random.PCG64())
    made.bit_generator.state = state
    return made


# Files.


def below(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): it for name, it in arrays.items() if name.startswith(start)}


def _write(out: Path, arrays: Arrays, values: Values) -> None:
    """Write a state: after a crash at any moment, the folder holds the state of before or this one."""
    (out / RESUMABLE).mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(it) for name, it in arrays.items()} | {"values": as_bytes_of(values)}
    integrity.write(out / RESUMABLE, {STATE: array_bytes(arrays)})


def as_bytes_of(values: Values) -> np.ndarray:
    """Return JSON as bytes."""
    return np.frombuffer(json.dumps(values, default=float).encode(), np.uint8)


def _read(out: Path) -> tuple[Arrays, Values]:
    """Return the last state of a folder; ValueError where it is damaged."""
    try:
        arrays = read_arrays(integrity.read(out / RESUMABLE)[STATE])
        values: Values = json.loads(arrays.pop("values").tobytes())
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(f"{out / RESUMABLE} has no readable state: {error}; start a new run") from None
    return arrays, values
