"""Single moves of the rule `union`: listed and described for agents, and evaluated by rollouts for look-ahead."""
