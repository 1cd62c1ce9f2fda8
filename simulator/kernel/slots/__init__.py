"""The queue and the running jobs in slots, for agents that pick a job: what they see, and what can be picked."""
