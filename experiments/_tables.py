"""Tables for the console: policies side by side, a number over settings, and claims with their verdicts."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_cluster_gym.evaluation.comparison import Estimate
from gpu_cluster_gym.experiments._claims import Claim
from gpu_cluster_gym.experiments._trials import Found

if TYPE_CHECKING:
    from gpu_cluster_gym.evaluation.report import SideBySide

Figure = tuple[str, str, str]
"""A number of the summary, its heading, and the format of its mean."""

TIMES: tuple[Figure, ...] = (
    ("mean_jct_s", "mean\nJCT", "{:,.0f}"),
    ("p95_jct_s", "p95\nJCT", "{:,.0f}"),
    ("mean_wait_s", "mean\nwait", "{:,.0f}"),
)


def grid(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1
) -> "SideBySide":
    """Return a table of texts whose first columns, so many, are words and whose others are figures."""
    from gpu_cluster_gym.evaluation.report import Column, SideBySide

    columns = [Column(heading, [row[at] for row in rows]) for at, heading in enumerate(headings)]
    return SideBySide(columns[:words], columns[words:], title=title)


def comparison(
    title: str,
    found: Found,
    setting: str,
    reference: str,
    *,
    numbers: Sequence[Figure] = TIMES,
    ratios: Sequence[tuple[str, str]] = (("mean_jct_s", "JCT"),),
) -> "SideBySide":
    """Return a setting's policies with the means of some numbers and some numbers' ratios to a reference's."""
    headings = ["policy", *(heading for _, heading, _ in numbers)]
    for _, what in ratios:
        headings += [f"{what} /\n{reference}'s", "95 %\ninterval"]
    rows = []
    for policy in found.policies(setting):
        row = [policy]
        row += [_text(found.mean((setting, policy), number).mean, form) for number, _, form in numbers]
        for number, _ in ratios:
            row += texts(
                found.ratio((setting, policy), (setting, reference), number), itself=policy == reference
            )
        rows.append(row)
    return grid(f"{title} ({found.counts()[setting]} trials)", headings, rows)


def sweep(
    title: str,
    found: Found,
    settings: dict[str, str],
    policies: Sequence[str],
    *,
    number: str = "mean_jct_s",
    form: str = "{:,.0f}",
) -> "SideBySide":
    """Return one number of some policies over settings, which are given with their headings."""
    rows = [
        [policy, *("\n".join(texts(found.mean((setting, policy), number), form)) for setting in settings)]
        for policy in policies
    ]
    trials = found.counts()[next(iter(settings))]
    return grid(f"{title} ({trials} trials)", ["policy", *settings.values()], rows)


def claims(found: Sequence[Claim]) -> "SideBySide":
    """Return claims with what the paper gives, what was measured and the verdict."""
    headings = ("claim", "paper", "measured", "95 %\ninterval", "verdict")
    rows = [
        (each.claim, _text(each.paper, each.form), *texts(each.measured, form=each.form), each.verdict)
        for each in found
    ]
    return grid("Claims", headings, rows)


def share(found: Estimate) -> str:
    """Return an estimate of a share as it is written in a sentence."""
    percent = Estimate(*(100 * figure for figure in found))
    return f"{percent.mean:.1f} %" + _in_brackets(limits(percent, "{:.1f}"))


def times(found: Estimate) -> str:
    """Return an estimate of a ratio as it is written in a sentence."""
    return f"{found.mean:.2f}{_in_brackets(limits(found, '{:.2f}'))} times"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def texts(found: Estimate, form: str = "{:.3f}", *, itself: bool = False) -> tuple[str, str]:
    """Return a mean and its interval as they are printed; what is compared with itself has no interval."""
    return _text(found.mean, form), "" if itself else limits(found, form)


def limits(found: Estimate, form: str) -> str:
    """Return an interval from its low end to its high; empty if it is not known."""
    if math.isnan(found.low):
        return ""
    low, high = (_text(limit, form) for limit in (found.low, found.high))
    low = low.removesuffix(" %")
    return f"{low} to {high}" if found.low < 0 else f"{low}-{high}"


def _text(figure: float, form: str) -> str:
    return form.format(figure).replace("%", " %")
