"""Pictures of a run: `python -m evaluation.plot RUN` draws figures, `evaluate.py --report` leaves a page."""
