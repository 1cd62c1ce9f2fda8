"""The simulated cluster: machines, jobs, physics, the compiled kernel, views and actions of policies, episodes."""

if __name__ != "gpu_cluster_gym.simulator":
    raise ImportError("simulator is part of a package: import gpu_cluster_gym.simulator, not simulator")
