"""docs/doctor.md names every topic that there is, and no other."""

from __future__ import annotations

import re

from dds_adapters.kubernetes.doctor import LEVELS, examination
from tests.support.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
OTHERS = {"policy", "log", "binding timeout", "cluster"}


def test_the_page_has_every_level_and_topic() -> None:
    named = set(re.findall(r"^\| ([a-z ]+) \|", PAGE, flags=re.MULTILINE)) - {"level", "topic"}
    topics = {check for check, _ in (*examination.FIRST_CHECKS, *examination.CLUSTER_CHECKS)}
    assert named == topics | OTHERS | set(LEVELS)
