"""The simulated cluster: machines, jobs, physics, the compiled kernel, what policies see and may do, episodes."""

if __name__ != "gpu_cluster_gym.simulator":
    raise ImportError("simulator is part of a package: import gpu_cluster_gym.simulator, not simulator")
