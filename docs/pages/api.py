"""API pages, by subject, generated from the docstrings of the public names."""

from collections.abc import Sequence

PAGES: dict[str, tuple[str, str, Sequence[str]]] = {
    "policies": (
        "Policies and observations",
        "A policy is a callable that takes a `View` and returns an action. The arrays of `view.jobs`, `view.gpus` and "
        "`view.nodes` have [separate tables](../columns.md#viewjobs).",
        ("simulator.policy", "simulator.view.View", "simulator.rule_policy.Rule"),
    ),
    "environments": (
        "Environments",
        "`import gpu_cluster_gym` registers `GPUCluster-v2`; [the environment](../environment.md) describes it.",
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
        "A scenario specifies a simulation ([fields](../columns.md#scenario)), a workload has the jobs of a "
        "scenario, and an episode simulates a workload.",
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
        "All reported numbers come from `summarise`; comparisons are paired by window.",
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
        "Learned agents",
        "The modules behind `train_agent.py`. [Your own agent](../your_own_agent.md) "
        "shows how to try another algorithm; the options are in [a table](../columns.md#training).",
        (
            "agents",
            "agents.learn",
            "agents.vec_env",
            "agents.checkpoint",
        ),
    ),
}
"""Title, introduction, and documented modules, classes and functions, by name of the page."""


def pages() -> dict[str, str]:
    """Return the text of each page by its path, the index first."""
    lines = [f"- [{title}]({name}.md): {text}" for name, (title, text, _) in PAGES.items()]
    index = [
        "# API",
        "",
        "The public API, by subject, generated from the docstrings.",
        "",
        *lines,
        "",
    ]
    return {"api/index.md": "\n".join(index)} | {
        f"api/{name}.md": "\n\n".join(
            [f"# {title}", text, *(f"::: gpu_cluster_gym.{each}" for each in named), ""]
        )
        for name, (title, text, named) in PAGES.items()
    }
