"""Simulated cluster: machines, jobs, queues and time, job speed, legality of actions, and events."""
