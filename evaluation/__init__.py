"""What came of a run: results, comparisons with intervals, tables, and the search of settings."""
