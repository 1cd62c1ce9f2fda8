"""The simulated cluster: machines, jobs, physics, the compiled kernel, what policies see and may do, episodes."""
