"""Invalid trace files, each with the line and column that its error must name."""

import gzip
from typing import NamedTuple

HEADER = "job_id,submit_s,num_gpus,duration_s"
TARGET_BUSY_SHARE = f"{HEADER}\na,0,1,60\nb,30,2,3600\nc,45.5,1,7.25\n"


class Bad(NamedTuple):
    """Content of a file, the position of its error, and a word that the message must contain."""

    case: str
    content: bytes
    line: int | None
    column: str | None
    word: str
    name: str = "jobs.csv"


def csv(case: str, text: str, line: int | None, column: str | None, word: str) -> Bad:
    return Bad(case, text.encode(), line, column, word)


def row(case: str, text: str, column: str, word: str = "expected") -> Bad:
    """Return two valid rows and then an invalid one, in the columns of the header, plus `column` if new."""
    extra = "" if column in HEADER else f",{column}"
    good = {"kind": ",gpu", "cpu_cores": ",4", "predictable_from": ",0.5", "user": ",u"}.get(column, ",1")
    lines = [f"a,0,1,60{good if extra else ''}", f"b,30,2,3600{good if extra else ''}", text]
    return csv(case, "\n".join([HEADER + extra, *lines]) + "\n", 4, column, word)


GZIPPED = gzip.compress(TARGET_BUSY_SHARE.encode() * 50)

BAD_CSV = [
    Bad("empty", b"", 1, None, "an empty file"),
    Bad("nothing but blank lines", b"\n\n", 1, None, "an empty file"),
    csv("header only", f"{HEADER}\n", None, None, "no jobs"),
    csv("no header", "a,0,1,60\nb,30,2,3600\n", 1, "job_id", "a column named job_id"),
    csv("a column missing", "job_id,submit_s,duration_s\na,0,60\n", 1, "num_gpus", "a column named num_gpus"),
    csv(
        "a column misspelt",
        TARGET_BUSY_SHARE.replace("duration_s", "durations"),
        1,
        "duration_s",
        "durations",
    ),
    csv(
        "blanks in the header",
        TARGET_BUSY_SHARE.replace(",num_gpus", ", num_gpus"),
        1,
        "num_gpus",
        "' num_gpus"[1:],
    ),
    csv("a column twice", f"{HEADER},num_gpus\na,0,1,60,1\n", 1, "num_gpus", "2 columns"),
    csv("an unknown column twice", f"{HEADER},x,x\na,0,1,60,1,1\n", 1, "x", "2 columns"),
    csv("separated by colons", TARGET_BUSY_SHARE.replace(",", ":"), 1, "job_id", "job_id:submit_s"),
    csv("semicolons and commas", f"{HEADER};user\na,0,1,60;u\n", 1, "duration_s", "duration_s;user"),
    csv("a row too short", f"{HEADER}\na,0,1,60\nb,30,2\n", 3, None, "3 fields"),
    csv("a row too long", f"{HEADER}\na,0,1,60\nb,30,2,3600,7\n", 3, None, "5 fields"),
    csv("all rows shifted by a comma", f"{HEADER}\na,0,1,60,\nb,30,2,3600,\n", 2, None, "5 fields"),
    csv("a decimal comma", f"{HEADER}\na,0,1,60\nb,30,5,2,3600\n", 3, None, "5 fields"),
    csv("a blank line inside", f"{HEADER}\na,0,1,60\n\nb,30,2,3600\n", 3, None, "a blank line"),
    csv("a quote that never ends", f'{HEADER}\na,0,1,60\n"b,30,2,3600\n', 3, None, "unexpected end of data"),
    csv("text behind a quote", f'{HEADER}\n"a"x,0,1,60\n', 2, None, "expected"),
    csv("an endless field", f"{HEADER}\n{'a' * 200_000},0,1,60\n", 2, None, "field larger than field limit"),
    csv("columns in the wrong order", f"{HEADER}\n0,a,1,60\n", 2, "submit_s", "'a'"),
    row(
        "text for a number",
        "c,45,1,long",
        "duration_s",
        "found 'long', expected a number of seconds >= 1e-06",
    ),
    row(
        "a negative duration", "c,45,1,-3", "duration_s", "found '-3', expected a number of seconds >= 1e-06"
    ),
    row("no duration", "c,45,1,0", "duration_s", "found '0', expected a number of seconds >= 1e-06"),
    row("minus nothing", "c,45,1,-0.0", "duration_s"),
    row("a blank duration", "c,45,1,", "duration_s", "found ''"),
    row("NaN", "c,45,1,nan", "duration_s", "'nan'"),
    row("NaN for a time", "c,NaN,1,60", "submit_s", "'NaN'"),
    row("infinity", "c,45,1,inf", "duration_s", "'inf'"),
    row("infinity spelt out", "c,45,1,Infinity", "duration_s"),
    row("1e400", "c,45,1,1e400", "duration_s", "found '1e400'"),
    row("more than any cluster ran for", "c,45,1,1e12", "duration_s", "100,000,000,000"),
    row("nanoseconds since 1970", "c,1507593600000000000,1,60", "submit_s", "100,000,000,000"),
    row("a date", "c,2017-10-10 08:00:00,1,60", "submit_s", "'2017-10-10 08:00:00'"),
    row("a negative time", "c,-45,1,60", "submit_s", "found '-45', expected a number of seconds >= 0"),
    row("underscores that Python would take", "c,1_000,1,60", "submit_s", "'1_000'"),
    row("digits of another script", "c,٤٥,1,60", "submit_s"),
    row("hexadecimal", "c,0x2d,1,60", "submit_s"),
    row("two numbers in one", "c,4 5,1,60", "submit_s"),
    row("a thousands separator in quotes", 'c,"1,000",1,60', "submit_s", "'1,000'"),
    row("negative GPUs", "c,45,-1,60", "num_gpus", "found '-1'"),
    row("GPUs by the million", "c,45,1000001,60", "num_gpus"),
    row("a huge integer", "c,45,99999999999999999999999,60", "num_gpus", "'99999999999999999999999'"),
    row("an integer of 5,000 digits", f"c,45,{'9' * 5000},60", "num_gpus", "..."),
    row("true", "c,45,True,60", "num_gpus"),
    row("a blank id", ",45,1,60", "job_id", "not blank"),
    row("an id of blanks", "  ,45,1,60", "job_id"),
    row("an id that cannot be printed", "c\x00c,45,1,60", "job_id", "printable"),
    row("an id twice", "b,45,1,60", "job_id", "line 3 has this one"),
    row("an unknown kind", "c,45,1,60,tpu", "kind", "gpu or cpu"),
    row("a GPU job without GPUs", "c,45,0,60,gpu", "num_gpus", "at least 1, since kind is gpu")._replace(
        content=f"{HEADER},kind\na,0,1,60,gpu\nb,30,2,3600,gpu\nc,45,0,60,gpu\n".encode()
    ),
    row("a CPU job with GPUs", "c,45,1,60,cpu", "num_gpus")._replace(
        content=f"{HEADER},kind\na,0,1,60,gpu\nb,30,0,3600,cpu\nc,45,1,60,cpu\n".encode(), word="0, since"
    ),
    row("a blank in an optional column", "c,45,1,60,", "user", "not blank"),
    row("a blank number in an optional column", "c,45,1,60,", "cpu_cores"),
    row("no cores", "c,45,1,60,0", "cpu_cores", ">= 1"),
    row("more servers than a job may have", "c,45,1,60,11", "servers", "parameter servers from 0 to 10"),
    row("a share above one", "c,45,1,60,1.5", "predictable_from", "a share from 0 to 1"),
    row("a negative memory", "c,45,1,60,-1", "gpu_memory_gib", "a number of GiB >= 0"),
    Bad("Latin-1", TARGET_BUSY_SHARE.replace("b,", "bé,").encode("latin-1"), 3, None, "UTF-8"),
    Bad("UTF-16", TARGET_BUSY_SHARE.encode("utf-16"), 1, None, "UTF-8"),
    Bad("a zip file by another name", b"PK\x03\x04\xff\xfe\x00", None, None, "packed by zip"),
    Bad("an xz file", b"\xfd7zXZ\x00\x00\x04", None, None, "packed by xz"),
    Bad("a zstd file", b"\x28\xb5\x2f\xfd\x04", None, None, "packed by zstd"),
    Bad("a bzip2 file", b"BZh91AY", None, None, "packed by bzip2"),
    Bad("gzip not called so", GZIPPED, None, None, "packed by gzip in a file named .gz"),
    Bad("text called gzip", TARGET_BUSY_SHARE.encode(), None, None, "a complete gzip file", "jobs.csv.gz"),
    Bad("gzip cut short", GZIPPED[:-20], None, None, "a complete gzip file", "jobs.csv.gz"),
    Bad(
        "gzip with a wrong bit", GZIPPED[:40] + b"\xff\xff" + GZIPPED[42:], None, None, "gzip", "jobs.csv.gz"
    ),
    Bad("gzip and rubbish", GZIPPED + b"rubbish", None, None, "gzip", "jobs.csv.gz"),
    Bad("an empty gzip", b"", 1, None, "an empty file", "jobs.csv.gz"),
]


JOB = (
    '{"status": "Pass", "vc": "a", "jobid": "j1", "user": "u", "submitted_time": "2017-10-10 08:00:00",\n'
    ' "attempts": [{"start_time": "2017-10-10 08:01:00", "end_time": "2017-10-10 09:01:00",\n'
    '  "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}'
)


def log(case: str, text: str, line: int | None, column: str | None, word: str) -> Bad:
    return Bad(case, text.encode(), line, column, word, "cluster_job_log")


def changed(case: str, old: str, new: str, column: str | None, word: str) -> Bad:
    """Return a log whose second job, in line 5, has an error."""
    other = JOB.replace("j1", "j2").replace(old, new)
    assert other != JOB.replace("j1", "j2")
    return log(case, f"[\n{JOB},\n{other}]", 5, column, word)


BAD_LOG = [
    log("empty", "", 1, None, "the end of the file"),
    log("no array", JOB, 1, None, "'{'"),
    log("a CSV", TARGET_BUSY_SHARE, 1, None, "looks like a table in the job table's own columns"),
    log("an array of numbers", "[1, 2]", 1, None, "'1'"),
    log("an array cut short", f"[{JOB}", 3, None, "the end of the file"),
    log("a job cut short", f"[{JOB[:-5]}", 3, None, "no JSON"),
    log("no comma", f"[{JOB}\n{JOB}]", 4, None, "'{'"),
    log("a comma too many", f"[{JOB},]", 3, None, "']'"),
    log("two arrays", f"[{JOB}][{JOB}]", 3, None, "expected the end of the file"),
    log("no job", "[]", None, None, "no job that held a GPU"),
    log("a job twice", f"[{JOB},\n{JOB}]", 4, "job_id", "'j1'"),
    log(
        "nested 100,000 deep", '[{"attempts": ' + "[" * 100_000 + "]" * 100_000 + "}]", 1, None, "too deeply"
    ),
    log("arrays 100,000 deep", "[" * 100_000 + "]" * 100_000, 1, None, "'['"),
    changed("NaN", '"Pass"', "NaN", None, "NaN"),
    changed("infinity", '"Pass"', "-Infinity", None, "-Infinity"),
    changed("an integer of 5,000 digits", '"Pass"', "9" * 5000, None, "digit"),
    changed("a huge integer for an id", '"j2"', "9" * 400, "jobid", "expected text"),
    changed("a null status", '"Pass"', "null", "status", "'None'"),
    changed("no virtual cluster", '"vc": "a", ', "", "vc", "found nothing"),
    changed("a blank user", '"u"', '""', "user", "not blank"),
    changed("half a character", '"u"', '"\\ud800"', "user", "printable"),
    changed("no attempts", '"attempts"', '"tries"', "attempts", "found nothing"),
    changed("attempts that are text", '[{"start', '"none", "x": [{"start', "attempts", "a list"),
    changed("an attempt that is a list", '[{"start_time', '[[], {"start_time', "attempts", "objects"),
    changed("no detail", '"detail"', '"details"', "detail", "found nothing"),
    changed("a detail that is text", '[{"ip": "m1", "gpus": ["gpu0"]}]', '["m1"]', "detail", "a list"),
    changed("GPUs that are a number", '["gpu0"]', "1", "gpus", "a list"),
    changed("no submission", '"2017-10-10 08:00:00"', '"None"', "submitted_time", "a time"),
    changed("another form of time", "2017-10-10 08:01", "10/10/2017 08:01", "start_time", "a time like"),
    changed("a day that is not", "2017-10-10 08:01", "2017-02-30 08:01", "start_time", "a time like"),
    changed("a time with a zone", "08:01:00", "08:01:00Z", "start_time", "a time like"),
    changed("a time as a number", '"2017-10-10 08:01:00"', "1507622460", "start_time", "'1507622460'"),
    changed("end before start", "09:01:00", "08:00:59", "end_time", "a time not before 2017-10-10 08:01:00"),
    Bad("Latin-1", f"[{JOB}]".replace('"u"', '"é"').encode("latin-1"), 1, None, "UTF-8", "cluster_job_log"),
    Bad("gzip cut short", gzip.compress(f"[{JOB}]".encode())[:-9], None, None, "gzip", "cluster_job_log.gz"),
]
