"""The queue and the running jobs in slots, for agents that start jobs one by one: observations and legal actions."""
