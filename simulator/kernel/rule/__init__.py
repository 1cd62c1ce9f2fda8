"""The rule over moves, `union`: where a job had best run, for whom others pause, and what is believed of each."""
