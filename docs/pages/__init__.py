"""What `make docs` makes beside the written pages: one of each policy, the API, and the notebooks as they run."""
