"""All moves that are worth considering, listed and described, for agents that choose among them and for look-ahead."""
