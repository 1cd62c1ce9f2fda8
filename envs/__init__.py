"""The Gymnasium face of the simulated cluster; importing it registers `GPUCluster-v0`."""

import gymnasium

gymnasium.register(id="GPUCluster-v0", entry_point="envs.env:GPUClusterEnv")
