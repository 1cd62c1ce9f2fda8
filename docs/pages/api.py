"""The API: what users import, a page a subject, each name by the docstring that it has."""

from collections.abc import Sequence

PAGES: dict[str, tuple[str, str, Sequence[str]]] = {
    "policies": (
        "Policies and what they see",
        "A policy is a callable, a `View` in and an action out. The arrays of `view.jobs`, `view.gpus` and "
        "`view.nodes` are [tables of their own](../columns.md#viewjobs).",
        ("simulator.policy", "simulator.view.View", "simulator.rule_policy.Rule"),
    ),
    "environments": (
        "Environments",
        "`import gpu_cluster_gym` registers `GPUCluster-v2`; [the environment](../environment.md) says what it is.",
        (
            "envs.env.GPUClusterEnv",
            "envs.moves.MovesEnv",
            "envs.steer.SteerEnv",
            "envs.registration",
            "envs.vector.GPUClusterVectorEnv",
            "envs.spaces.NamedParts",
            "envs.windows.member_seeds",
            "envs.agent_policy",
        ),
    ),
    "workloads": (
        "Workloads and episodes",
        "What is simulated: a scenario names it ([its fields](../columns.md#of-a-scenario)), a workload has its "
        "jobs, an episode plays it.",
        (
            "workloads.named",
            "workloads.names",
            "workloads.windows",
            "workloads.full_trace",
            "workloads.Workload",
            "simulator.episode.run",
            "simulator.episode.Episode",
            "simulator.account.Account",
            "baselines",
        ),
    ),
    "evaluation": (
        "Evaluation",
        "Every number that is reported comes from `summarise`; comparisons are paired by window.",
        (
            "evaluation.metrics",
            "evaluation.runner",
            "evaluation.table",
            "evaluation.comparison",
            "evaluation.record",
            "evaluation.run_folder",
            "evaluation.plot.run_tables",
            "evaluation.plot.figures",
            "evaluation.plot.style.style",
        ),
    ),
    "agents": (
        "Agents that learn",
        "What `train_agent.py` is made of; [learning](../learning.md) says how to try another algorithm, and "
        "[a table](../columns.md#of-a-training) has the settings.",
        (
            "agents",
            "agents.learn",
            "agents.vec_env",
            "agents.checkpoint",
        ),
    ),
}
"""By the name of the page: its title, a sentence, and modules, classes and functions."""


def pages() -> dict[str, str]:
    """Return the text of each page by its path, the index first."""
    lines = [f"- [{title}]({name}.md): {said}" for name, (title, said, _) in PAGES.items()]
    index = [
        "# API",
        "",
        "What users import, by subject; the pages are made of the docstrings.",
        "",
        *lines,
        "",
    ]
    return {"api/index.md": "\n".join(index)} | {
        f"api/{name}.md": "\n\n".join(
            [f"# {title}", said, *(f"::: gpu_cluster_gym.{each}" for each in named), ""]
        )
        for name, (title, said, named) in PAGES.items()
    }
