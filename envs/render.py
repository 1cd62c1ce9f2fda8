"""The cluster as text: a line a node, a letter a job."""

from string import ascii_letters

from simulator.view import View


def text(view: View) -> str:
    """Return the time, each node's GPUs with the job on each, and how many jobs wait."""
    letters = {
        job: ascii_letters[job % len(ascii_letters)] for job in view.gpus.first_owner.tolist() if job >= 0
    }
    letters[-1] = "."
    rows = [f"{view.now:12.0f} s  {len(view.running)} running, {len(view.queue)} queued"]
    for node in range(len(view.nodes.num_gpus)):
        gpus = view.gpus.first_owner[view.gpus.node == node].tolist()
        rows.append(
            f"node {node:3d}  {''.join(letters[job] for job in gpus)}  {view.nodes.free_cores[node]:.0f} cores free"
        )
    return "\n".join(rows)
