"""Croissant metadata of the data in this repository, `croissant.json`, written by `python -m docs.pages.croissant`.

Croissant 1.0 is the vocabulary of mlcommons.org/croissant in JSON-LD: files with checksums, and the columns of tables.
`traces/data/SOURCES.md` is the datasheet of the statistics, `docs/benchmark.md` that of the results.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "croissant.json"
TYPES = {"i": "sc:Integer", "f": "sc:Float"}
"""Croissant's type by the kind of a NumPy dtype; text for any other."""
LICENCES = ("https://spdx.org/licenses/MIT.html", "https://creativecommons.org/licenses/by/4.0/")


class Data(NamedTuple):
    """A file.

    path: from the root. about: its content in a sentence.
    columns: a description of each column of a CSV file; empty for a file whose columns SOURCES.md describes
    """

    path: str
    about: str
    columns: Mapping[str, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Name of the file in the metadata."""
        return Path(self.path).name


RATIOS = {
    "workload": "Named workload of docs/workloads.md",
    "policy": "Policy, or the name under which tuned and learned policies are in docs/results.md",
    "windows": "Number of test windows (seed 0)",
    "mean_jct_s": "Mean job completion time, s, mean over windows",
    "ratio": "Mean JCT relative to the reference's, mean of the windows' ratios",
    "low": "Lower end of the ratio's 95 % interval, paired bootstrap over windows",
    "high": "Upper end of that interval",
    "reason": "Reason for an empty row, such as a lever that the workload does not have",
}
WAITS = {
    "mean_wait_s": "Mean wait of a job, s, mean over windows",
    "max_wait_s": "Longest wait of a job, s, mean over windows",
}
FILES = (
    Data(
        "docs/results.csv", "Mean JCT of every policy on every workload, relative to FIFO's", RATIOS | WAITS
    ),
    Data(
        "docs/results_of_log.csv",
        "The same on windows of Philly's real log; results only, no job of the log",
        RATIOS
        | WAITS
        | {"workload": "Windows of the generator, moderately busy ones of the log, or all of the log"},
    ),
    Data(
        "docs/room.csv",
        "Room between an agent without knowledge and a lower bound, relative to constant weights of the rule union",
        RATIOS
        | WAITS
        | {
            "row": "Column of the table in docs/workloads.md",
            "name": "Policy of that column on that workload",
            "jct_to_best": "Mean JCT relative to the best published policy's",
            "slowdown_to_best": "Mean bounded slowdown relative to the best published policy's",
            "seed": "Seed of the windows",
        },
    ),
    Data(
        "docs/room_moves.csv",
        "Value of single deviations from the constants' choice, in job-seconds",
        {
            "workload": "Named workload of docs/workloads.md",
            "decisions": "Decisions at which deviations were tried",
            "winners": "Decisions whose best move gains more than two standard errors in simulated futures",
            "kinds": "Number of winners of each kind of move",
            "gain": "Mean gain of the winners in simulated futures, job-seconds",
            "true_gain": "Mean gain of the winners in the true future, job-seconds",
            "noise": "Standard deviation of a winner's gain over simulated futures, root mean square, job-seconds",
            "true_noise": "Standard deviation of the true gain over winners, job-seconds",
            "samples": "Simulated futures that show a gain above 0 by two standard errors",
            "true_samples": "The same for the true gain",
            "correlation": "Correlation of simulated and true gain",
        },
    ),
    Data(
        "docs/sweep.csv",
        "Settings of steady windows, and whether they are accepted as a workload",
        {
            "cluster": "Nodes x GPUs",
            "load": "Offered load",
            "days": "Days under FIFO, days whose jobs are scored, days of further arrivals",
            "cap_days": "Cap of run times, days; inf for none",
            "quotas": "Borrowing under proportional quotas of virtual clusters; empty without quotas",
            "jobs": "Mean number of jobs in a window",
            "best": "Best published policy",
            "waiting": "Its mean wait / mean JCT",
            "late_work": "Share of the scored GPU time that it runs after the last arrival",
            "random": "Mean JCT in random order relative to the best policy's",
            "fifo_strict": "Mean JCT of strict FIFO relative to the best policy's",
            "fifo": "Mean JCT of FIFO relative to the best policy's",
            "fifo_slowdown": "Mean bounded slowdown of FIFO",
            "best_slowdown": "Mean bounded slowdown of the best policy",
            "verdict": "accepted, or the criteria that the setting fails",
        },
    ),
    Data("traces/data/philly_statistics.json", "Statistics of 82,163 jobs of Microsoft's Philly log of 2017"),
    Data(
        "traces/data/helios_statistics.json", "Published figures of the GPU jobs of SenseTime's Helios, 2020"
    ),
    Data("traces/data/pai_statistics.json", "Published figures of the GPU jobs of Alibaba's PAI, 2020"),
    Data(
        "traces/data/acme_statistics.json", "Published figures of the GPU jobs of Acme's two clusters, 2023"
    ),
    Data("traces/data/xonar_statistics.json", "Quantiles and rank correlations of Xonar's 600 profiles"),
    Data(
        "traces/data/models.csv",
        "Iteration time, memory, cores and restart of models, fitted to measurements",
    ),
    Data("traces/data/hardware.csv", "GPUs, links, storage and the defaults that go with them"),
)


def metadata() -> dict[str, Any]:
    """Return the metadata of all files as JSON-LD."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": project["name"],
        "description": "Statistics of public logs of GPU clusters, fitted profiles of training jobs, and results of "
        "scheduling policies and agents on fixed windows.",
        "version": project["version"],
        "license": list(LICENCES),
        "keywords": project["keywords"],
        "creator": {"@type": "Organization", "name": project["authors"][0]["name"]},
        "citeAs": "CITATION.cff; for the statistics also the papers of their logs, which traces/data/SOURCES.md names",
        "rai:dataCollection": "Statistics were fitted on public logs and on published summaries, profiles on public "
        "measurements; traces/data/SOURCES.md names the source and licence of each. Results are simulated.",
        "rai:dataLimitations": "Columns that no log has are drawn (docs/workloads.md); the simulator's errors are in "
        "docs/rules.md. Results are of this version's windows.",
        "rai:personalSensitiveInformation": "None: no job of a log is included, and no user.",
        "distribution": [distribution(each) for each in FILES],
        "recordSet": [record_set(each) for each in FILES if each.columns],
    }


def distribution(data: Data) -> dict[str, Any]:
    """Return the description of a file, with its size and checksum."""
    content = (ROOT / data.path).read_bytes()
    return {
        "@type": "cr:FileObject",
        "@id": data.name,
        "name": data.name,
        "description": data.about,
        "contentUrl": data.path,
        "contentSize": f"{len(content)} B",
        "encodingFormat": "text/csv" if data.path.endswith(".csv") else "application/json",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def record_set(data: Data) -> dict[str, Any]:
    """Return the description of a table: the name, type and meaning of each column."""
    table = pd.read_csv(ROOT / data.path)
    name = Path(data.path).stem
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": str(column),
            "description": data.columns[str(column)],
            "dataType": TYPES.get(table[column].dtype.kind, "sc:Text"),
            "source": {"fileObject": {"@id": data.name}, "extract": {"column": column}},
        }
        for column in table
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": data.about,
        "field": fields,
    }


def text() -> str:
    """Return the metadata as the text of the file."""
    return json.dumps(metadata(), indent=1, ensure_ascii=False) + "\n"


CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification of Croissant 1.0 recommends."""

if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
