"""Evaluation of policies: simulation, metrics, paired comparisons, tables, reports, and the search for settings."""

if __name__ != "gpu_cluster_gym.evaluation":
    raise ImportError("evaluation is part of a package: import gpu_cluster_gym.evaluation, not evaluation")
