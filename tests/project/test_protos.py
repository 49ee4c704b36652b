"""What is generated from .proto files is what they say now."""

from __future__ import annotations

from pathlib import Path

from tests.project.protos import FOLDER, ROOT, make


def test_the_generated_modules_are_current(tmp_path: Path) -> None:
    make(tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / FOLDER).iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / FOLDER).glob("*_pb2.py*")}
    assert made == kept, "run: python -m tests.project.protos"
