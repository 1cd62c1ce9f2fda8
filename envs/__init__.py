"""The Gymnasium environments of the simulated cluster. Importing `gpu_cluster_gym` registers them."""

if __name__ != "gpu_cluster_gym.envs":
    raise ImportError("envs is part of a package: import gpu_cluster_gym.envs, not envs")
