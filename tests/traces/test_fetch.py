"""Archives are fetched from a server, resumed, checked, and extracted inside their folder only."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gpu_cluster_gym.__main__ import main
from gpu_cluster_gym.traces import _fetch
from gpu_cluster_gym.traces._fetch import Archive, FetchError, Trace, fetch

TEXT = b"job,start\n" * 1000
LIMIT = 1 << 20


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def linked(kind: bytes) -> bytes:
    info = tarfile.TarInfo("link.csv")
    info.type, info.linkname = kind, "/etc/passwd"
    return packed((info, b""))


GOOD = packed((tarfile.TarInfo("jobs/table.csv"), TEXT))
BAD = {
    "parent": packed((tarfile.TarInfo("../table.csv"), TEXT)),
    "absolute": packed((tarfile.TarInfo("/tmp/table.csv"), TEXT)),
    "symlink": linked(tarfile.SYMTYPE),
    "hard link": linked(tarfile.LNKTYPE),
    "device": linked(tarfile.CHRTYPE),
    "bomb": packed((tarfile.TarInfo("zeros.csv"), bytes(2 * LIMIT))),
    "twice": packed((tarfile.TarInfo("a.csv"), TEXT), (tarfile.TarInfo("a.csv"), TEXT)),
    "cut": GOOD[: len(GOOD) // 2],
    "text": b"<html>not found</html>",
}


class Handler(BaseHTTPRequestHandler):
    """Serves one content; the first answer ends after `stop` bytes."""

    def __init__(self, served: dict[str, Any], *args: Any) -> None:
        self.served = served
        super().__init__(*args)

    def do_GET(self) -> None:
        content, asked = self.served["content"], self.headers.get("Range")
        self.served["asked"].append(asked)
        begin = int(asked[6:-1]) if asked else 0
        if begin >= len(content):
            self.send_error(416)
            return
        rest = content[begin:]
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.served.pop("stop", None)])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def served() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {"content": GOOD, "asked": []}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, found))
    thread = Thread(target=server.serve_forever)
    thread.start()
    found["url"] = f"http://127.0.0.1:{server.server_port}/trace.tar.gz"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def silent(_: str) -> None:
    """Drop a line of progress."""


def trace(served: dict[str, Any], sha256: str | None = None) -> Trace:
    return Trace((Archive(served["url"], sha256, LIMIT),), "CC BY 4.0", "a paper", "jobs/table.csv")


def test_a_good_archive_is_extracted(
    served: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_fetch, "TRACES", {"mine": trace(served, hashlib.sha256(GOOD).hexdigest())})
    assert main(["fetch", "mine", "--out", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine" / "jobs" / "table.csv").read_bytes() == TEXT
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
    said = capsys.readouterr().err
    assert "CC BY 4.0" in said
    assert "SHA-256 as published" in said
    assert main(["fetch", "mine", "--out", str(tmp_path / "mine")]) == 2
    assert main(["fetch", "min"]) == 2
    assert "mine exists" in (said := capsys.readouterr().err)
    assert "did you mean" in said.lower()


def test_a_hash_that_nobody_published_is_printed(served: dict[str, Any], tmp_path: Path) -> None:
    lines: list[str] = []
    fetch(trace(served), tmp_path / "mine", lines.append)
    assert f"SHA-256 {hashlib.sha256(GOOD).hexdigest()} (none is published" in " ".join(lines)


def test_a_plain_file_is_checked_by_its_name_in_git(served: dict[str, Any], tmp_path: Path) -> None:
    """By what `git hash-object` prints for this content."""
    served["content"] = b"job,start\n"
    plain = Archive(
        served["url"].replace("trace.tar.gz", "jobs.csv"), blob="cfd4cdada7318a571cb62064b01b69111ad21f16"
    )
    mine = Trace((plain,), "CC BY 4.0", "a paper", "jobs.csv")
    lines: list[str] = []
    fetch(mine, tmp_path / "mine", lines.append)
    assert (tmp_path / "mine" / "jobs.csv").read_bytes() == b"job,start\n"
    assert lines == ["jobs.csv: 10 bytes, Git's SHA-1 as published"]
    served["content"] = b"job,begin\n"
    with pytest.raises(FetchError, match="the file was removed"):
        fetch(mine, tmp_path / "other", silent)


@pytest.mark.parametrize(("name", "words"), [("philly", "is in Git LFS: git clone"), ("helios", "unzip it")])
def test_a_trace_that_is_not_fetched_is_answered_with_the_way(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", name, "--out", str(tmp_path / "mine")]) == 2
    assert words in capsys.readouterr().err


def test_a_truncated_download_is_resumed(served: dict[str, Any], tmp_path: Path) -> None:
    served["stop"] = 100
    with pytest.raises(FetchError, match="again to resume"):
        fetch(trace(served), tmp_path / "mine", silent)
    assert not (tmp_path / "mine").exists()
    fetch(trace(served, hashlib.sha256(GOOD).hexdigest()), tmp_path / "mine", silent)
    assert served["asked"] == [None, "bytes=100-"]
    assert (tmp_path / "mine" / "jobs" / "table.csv").read_bytes() == TEXT


def test_a_wrong_hash_leaves_nothing_to_use(served: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="the file was removed"):
        fetch(trace(served, "0" * 64), tmp_path / "mine", silent)
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@pytest.mark.parametrize("kind", BAD)
def test_a_hostile_archive_writes_nothing_outside(kind: str, served: dict[str, Any], tmp_path: Path) -> None:
    served["content"] = BAD[kind]
    folder = tmp_path / "inside" / "mine"
    with pytest.raises(FetchError):
        fetch(trace(served), folder, silent)
    assert not folder.exists()
    outside = [each for each in tmp_path.rglob("*") if each.is_file() and ".mine.parts" not in each.parts]
    assert outside == []


def test_an_archive_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    gone = Trace((Archive("http://127.0.0.1:9/none.tar.gz", None, LIMIT),), "", "", "")
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:9/none"):
        fetch(gone, tmp_path / "mine", silent)


def test_addresses_are_encrypted_and_hashes_are_hashes() -> None:
    for each in _fetch.TRACES.values():
        for archive in each.archives:
            assert archive.url.startswith("https://")
            assert archive.sha256 is None or len(bytes.fromhex(archive.sha256)) == 32
            assert archive.blob is None or len(bytes.fromhex(archive.blob)) == 20
            assert archive.sha256 or archive.blob
