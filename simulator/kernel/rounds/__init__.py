"""Compiled rounds: shapes of jobs, time sharing on kinds of GPUs, priority orders, and groups that share GPUs."""
