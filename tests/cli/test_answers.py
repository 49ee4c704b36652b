"""The incidents of the recordings, each answered by the first command that a person on call would type, in a screenful: the texts
are in `tests/data/golden/answers`. After a deliberate change: `python -m tests.cli.test_answers`, and read what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import fine

DATA = Path(__file__).parents[1] / "data"
ASKED = {
    "attach_failure": ("incident",),
    "node_limit": ("incident",),
    "burst": ("incident",),
}
SCREENFUL = 30


def told(incident: str) -> str:
    return fine(*ASKED[incident], str(DATA / "recordings" / f"{incident}.jsonl.gz"))


def kept(incident: str) -> Path:
    return DATA / "golden" / "answers" / f"{incident}.txt"


@pytest.mark.parametrize("incident", ASKED)
def test_an_incident_is_answered_in_a_screenful(incident: str) -> None:
    text = told(incident)
    assert text == kept(incident).read_text()
    assert len(text.splitlines()) <= SCREENFUL


if __name__ == "__main__":
    for one in ASKED:
        kept(one).write_text(told(one))
