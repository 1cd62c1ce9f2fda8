"""Download a public trace from its official archive, or resume the download; check it, and extract it into a folder."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpu_cluster_gym.traces._registry import unknown

PIECE = 1 << 20  # bytes read at once
TIMEOUT_S = 60.0
PATIENCE_S = 5.0
"""Seconds between lines of progress."""
MAX_MEMBERS = 10_000
PAI = "https://aliopentrace.oss-cn-beijing.aliyuncs.com/v2020GPUTraces"
GITHUB = "https://raw.githubusercontent.com"
CLUSTERDATA = f"{GITHUB}/alibaba/clusterdata/7a6c496e4f4b6ce6150be8f881cb051bf2abff42/cluster-trace"
ACME = f"{GITHUB}/InternLM/AcmeTrace/6d6ac9cd15f3b01151ac6ba00ecddd9156f0dc73/data/job_trace"


class Archive(NamedTuple):
    """A tar archive packed by gzip, or a plain file of a Git repository.

    url: where it is. sha256: as published, None where it is not. most_bytes: limit of what it unpacks to.
    blob: Git's object name of a plain file, a SHA-1 of its content; None for an archive.
    """

    url: str
    sha256: str | None = None
    most_bytes: int = 0
    blob: str | None = None


class Trace(NamedTuple):
    """A public trace: its archives, licence and source, and the file to name by `--trace-file`."""

    archives: tuple[Archive, ...]
    licence: str
    source: str
    log: str


TRACES = {
    "pai": Trace(
        (
            Archive(
                f"{PAI}/pai_job_table.tar.gz",
                "5aad7f7caac501136d14ed6a48e40546f825d7b0617a3a4f337e2348fe0a6cb0",
                2 << 30,
            ),
            Archive(
                f"{PAI}/pai_task_table.tar.gz",
                "cd1d6dc3215d2a8607ccf6b6dd952b5db776df86926c73259fea7c1499ac40e5",
                2 << 30,
            ),
            Archive(
                f"{PAI}/pai_machine_spec.tar.gz",
                "cc0d38a4045af1b1af8179de8b1b54b1ddd995e6160d6d061a6b1000f1276c2d",
                64 << 20,
            ),
        ),
        "CC BY 4.0; cite Weng et al., NSDI'22",
        "github.com/alibaba/clusterdata, cluster-trace-gpu-v2020, whose README has the addresses and SHA-256",
        "pai_job_table.csv",
    ),
    "openb": Trace(
        (
            Archive(
                f"{CLUSTERDATA}-gpu-v2023/csv/openb_pod_list_default.csv",
                blob="bd82505791c723c5b11486ef457fb338529912c0",
            ),
            Archive(
                f"{CLUSTERDATA}-gpu-v2023/csv/openb_node_list_gpu_node.csv",
                blob="79f9477a5d4f005c44ea721c18490e91cfd5e8b4",
            ),
        ),
        "no licence file; cite Weng et al., ATC'23",
        "github.com/alibaba/clusterdata, cluster-trace-gpu-v2023",
        "openb_pod_list_default.csv",
    ),
    "spot": Trace(
        (
            Archive(
                f"{CLUSTERDATA}-v2026-spot-gpu/job_info_df.csv",
                blob="f2a0dcbc26b5a1a047e49a7efa886e86ec9cde32",
            ),
            Archive(
                f"{CLUSTERDATA}-v2026-spot-gpu/node_info_df.csv",
                blob="7960d6862f176c53391ead0933972ec768c31fb9",
            ),
        ),
        "no licence file; cite Duan et al., ASPLOS'26",
        "github.com/alibaba/clusterdata, cluster-trace-v2026-spot-gpu",
        "job_info_df.csv",
    ),
    "acme": Trace(
        (
            Archive(f"{ACME}/trace_seren.csv", blob="3133535311d36ecc404d4446e129036a1057c6f2"),
            Archive(f"{ACME}/trace_kalos.csv", blob="6e6c11a6308e403a2b75f3dec2d9cf48263c1a52"),
        ),
        "CC BY 4.0; cite Hu et al., NSDI'24",
        "github.com/InternLM/AcmeTrace",
        "trace_seren.csv",
    ),
}
"""Traces with the addresses of their archives as documented, or of their files at a commit of their repository."""
ELSEWHERE = {
    "philly": "its archive is in Git LFS: git clone https://github.com/msr-fiddle/philly-traces (with git-lfs "
    "installed), tar xzf trace-data.tar.gz, and name cluster_job_log",
    "helios": "its archive is a zip file, data.zip of https://github.com/S-Lab-System-Group/HeliosData: unzip it, and "
    "name the cluster_log.csv of a cluster",
}
"""What to do for traces that are not fetched."""

Say = Callable[[str], None]


class FetchError(ValueError):
    """A download that failed, or an archive that is not what it should be."""


def fetch(trace: Trace, folder: Path, say: Say) -> None:
    """Download and extract a trace into a folder; FetchError where that fails.

    say: takes lines of progress.
    """
    if folder.exists():
        raise FetchError(f"{folder} exists: remove it, or name another folder with --out")
    parts = folder.with_name(f".{folder.name}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    files = [download(each, parts / PurePosixPath(each.url).name, say) for each in trace.archives]
    whole = parts / "extracted"
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    for each, file in zip(trace.archives, files, strict=True):
        if each.blob:
            shutil.copyfile(file, whole / file.name)
        else:
            extract(file, whole, each.most_bytes)
    whole.rename(folder)
    shutil.rmtree(parts)


def download(archive: Archive, file: Path, say: Say) -> Path:
    """Download an archive, or the rest of one, and return its file; FetchError where it is incomplete or altered."""
    if not file.exists():
        partial = file.with_name(f"{file.name}.partial")
        try:
            _receive(archive.url, partial, say)
        except (OSError, http.client.HTTPException, urllib.error.URLError) as error:
            raise FetchError(f"{archive.url}: {error}; run the command again to resume") from None
        partial.rename(file)
    found, what = (_blob(file), "Git's SHA-1") if archive.blob else (_sha256(file), "SHA-256")
    expected = archive.blob or archive.sha256
    if expected is None:
        say(f"{file.name}: {file.stat().st_size:,} bytes, {what} {found} (none is published to compare with)")
    elif found != expected:
        file.unlink()
        raise FetchError(f"{archive.url}: {what} {found}, expected {expected}; the file was removed")
    else:
        say(f"{file.name}: {file.stat().st_size:,} bytes, {what} as published")
    return file


def _receive(url: str, partial: Path, say: Say) -> None:
    """Append the rest of a file; FetchError where the server ends too early, OSError where it cannot be reached."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        partial.unlink()  # what is here is not the beginning of what is there
        have = 0
        answer = urllib.request.urlopen(url, timeout=TIMEOUT_S)
    with answer:
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
            raise FetchError(
                f"{url}: the server sent another byte range than requested; run the command again"
            )
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdecimal() else None
        shown = time.monotonic()
        with partial.open("ab" if resumed else "wb") as stream:
            while piece := answer.read(PIECE):
                stream.write(piece)
                have += len(piece)
                if time.monotonic() - shown > PATIENCE_S:
                    shown = time.monotonic()
                    of = f" of {total:,} ({100 * have // max(total, 1)} %)" if total else ""
                    say(f"{partial.stem}: {have:,}{of} bytes")
    if total is not None and have != total:
        raise FetchError(f"{url}: received {have:,} of {total:,} bytes; run the command again to resume")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _blob(file: Path) -> str:
    """Return the name that Git gives the content of a file."""
    found = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as stream:
        while piece := stream.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def extract(file: Path, folder: Path, most_bytes: int) -> None:
    """Extract the regular files of an archive into a folder; FetchError for links, paths outside and too many bytes."""
    written = 0
    try:
        with tarfile.open(file, "r|gz") as archive:
            for number, member in enumerate(archive):
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name:
                    raise FetchError(f"{file.name}: expected paths inside the folder, not {member.name!r}")
                if member.isdir():
                    continue
                if not member.isreg() or number >= MAX_MEMBERS:
                    raise FetchError(
                        f"{file.name}: expected at most {MAX_MEMBERS:,} regular files, not {member.name!r}"
                    )
                source = archive.extractfile(member)
                assert source, "a regular file"
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as stream:
                    while piece := source.read(PIECE):
                        written += len(piece)
                        if written > most_bytes:
                            raise FetchError(f"{file.name}: expected at most {most_bytes:,} unpacked bytes")
                        stream.write(piece)
    except (tarfile.TarError, EOFError, zlib.error, FileExistsError) as error:
        raise FetchError(f"{file.name}: expected a complete tar archive packed by gzip ({error})") from None


def main(args: Sequence[str] | None = None) -> int:
    """Fetch the trace that the arguments name; return the exit code, 2 where that fails."""
    parser = argparse.ArgumentParser("gpu-cluster-gym fetch", description=__doc__)
    parser.add_argument("name", help=f"a trace: {', '.join(TRACES)}")
    parser.add_argument("--out", type=Path, help="folder to create; default: the trace's name")
    chosen = parser.parse_args(args)

    def say(line: str) -> None:
        sys.stderr.write(f"{line}{os.linesep}")

    try:
        if chosen.name in ELSEWHERE:
            raise FetchError(f"{chosen.name}: {ELSEWHERE[chosen.name]}")
        if chosen.name not in TRACES:
            raise FetchError(unknown("downloadable trace", chosen.name, TRACES))
        trace, folder = TRACES[chosen.name], chosen.out or Path(chosen.name)
        say(f"{chosen.name}: {trace.licence}; source: {trace.source}")
        fetch(trace, folder, say)
    except FetchError as error:
        say(f"gpu-cluster-gym fetch: {error}")
        return 2
    say(f"{folder}: gpu-cluster-gym describe {folder / trace.log}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
