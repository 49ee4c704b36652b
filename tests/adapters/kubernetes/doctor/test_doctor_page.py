"""docs/doctor.md names every topic that there is, and no other."""

from __future__ import annotations

import inspect
import re

from dds_adapters.kubernetes.doctor import LEVELS, examination, fabric
from tests.support.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
OTHERS = {"policy", "publish policy", "log", "binding timeout", "cluster"}
FABRIC = re.findall(r'"(fabric(?: [a-z]+)?)"', inspect.getsource(fabric) + inspect.getsource(examination))


def test_the_page_has_every_level_and_topic() -> None:
    named = set(re.findall(r"^\| ([a-z ]+) \|", PAGE, flags=re.MULTILINE)) - {"level", "topic"}
    checks = (
        *examination.FIRST_CHECKS,
        *examination.CLUSTER_CHECKS,
        *examination.SCALER_CHECKS,
        *examination.PUBLISHER_CHECKS,
    )
    assert named == {check for check, _ in checks} | OTHERS | set(FABRIC) | set(LEVELS)
