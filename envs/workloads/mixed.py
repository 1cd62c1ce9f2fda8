"""Four levers at once: a small cluster on which jobs can share GPUs, be paused, change their size and their cores.

Two jobs slow each other down as Gavel measured it on V100s, and by 4 % for the company (Lucid's pairs: 3 to 5 %).
Nodes have six cores a GPU: the V100 machines of Alibaba's PAI have 96 hyper-threads for eight. GPUs are alike and
nothing fails, for neither is a lever. See `traces.mixed` and `docs/mixed.md`.
"""

from envs.scenario import Scenario

scenario = Scenario(
    trace="mixed",
    cluster="4x8",
    physics="memory,preemption,estimates,sharing,locality,cores,bandwidth,cpu_jobs,elastic",
    max_share=2,
    contention_loss=0.04,
    jobs=240,
    all_windows=True,
)
