"""Policies that order jobs, carried out in scheduling passes, and cost-aware preemption."""
