"""Pictures of a run: `gpu-cluster-gym plot RUN` draws figures, `evaluate.py --report` leaves a page."""
