"""Pages that `make docs` generates alongside the written ones: policies, the API, and executed notebooks."""
