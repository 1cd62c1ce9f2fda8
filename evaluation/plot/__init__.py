"""Figures of runs: `gpu-cluster-gym plot RUN` draws them; the HTML report uses the same tables."""
