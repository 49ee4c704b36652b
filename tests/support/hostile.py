"""Names that would do harm in a page, and a recording in which a claim and its pod have one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.support.commands import FIRST_ATTACH

HOSTILE = (
    "<script>window.harm=1</script>",
    "</script><img src=x onerror=window.harm=1>",
    "'\"><svg onload=window.harm=1>{{data}}",
    "\u202ereversed\u2066 שלום مرحبا\u200b",
    "x" * 5_000,
)
"""The API server would refuse them; who writes a recording need not."""


def hostile_recording(folder: Path, name: str) -> str:
    """The recording `first_attach` with this name for what is called train-1."""
    text = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).decode()
    path = folder / "hostile.jsonl"
    path.write_text(text.replace('"train-1"', json.dumps(name)), encoding="utf-8")
    return str(path)
