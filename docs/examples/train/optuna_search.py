"""Search options of `train_agent.py` with Optuna: trials are stored in SQLite and pruned at their validations.

python -m docs.examples.train.optuna_search 20 --workload quick     # again, or several at once: trials are shared
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna

from gpu_cluster_gym.agents.callbacks import Validated
from gpu_cluster_gym.agents.learn import learn
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.workloads import Scenario, named

STORAGE = "sqlite:///runs/optuna.db"
TRAINING = PlainTraining(total_timesteps=200_000, validate_every=25_000)  # half of the default


def options(trial: optuna.Trial) -> dict[str, Any]:
    """Return the options of a trial, by their names in `train_agent.py`."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 3e-3, log=True),
        "gae_lambda": trial.suggest_float("gae_lambda", 0.7, 0.98),
        "ent_coef": trial.suggest_float("ent_coef", 1e-5, 1e-2, log=True),
        "n_epochs": trial.suggest_int("n_epochs", 2, 10),
        "hidden": trial.suggest_categorical("hidden", (16, 32, 64)),
    }


def trained(trial: optuna.Trial, scenario: Scenario, training: PlainTraining = TRAINING) -> float:
    """Train an agent with a trial's options; return its lowest mean JCT over FIFO's on validation windows."""
    ratios: list[float] = []

    def validated(found: Validated) -> None:
        if found.step:  # the first validation is of random weights
            ratios.append(found.own.ratio)
            trial.report(ratios[-1], found.step)
            if trial.should_prune():
                raise optuna.TrialPruned

    out = Path(f"runs/optuna-{trial.study.study_name}-{trial.number}")
    learn(training.practice(scenario), replace(training, **options(trial)), out, validated=validated)
    return min(ratios)


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("trials", type=int)
    flags.add_argument("--workload", default="quick")
    chosen = flags.parse_args()
    Path("runs").mkdir(exist_ok=True)
    study = optuna.create_study(storage=STORAGE, study_name=chosen.workload, load_if_exists=True)
    study.optimize(lambda trial: trained(trial, named(chosen.workload)), chosen.trials)
    best = [f"--{name.replace('_', '-')} {value}" for name, value in study.best_params.items()]
    print(f"{study.best_value:.3f}:", "train_agent.py --workload", chosen.workload, *best)  # noqa: T201
