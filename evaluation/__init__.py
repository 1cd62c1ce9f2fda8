"""What came of a run: results, comparisons with intervals, tables, and the search of settings."""

if __name__ != "gpu_cluster_gym.evaluation":
    raise ImportError("evaluation is part of a package: import gpu_cluster_gym.evaluation, not evaluation")
