"""What a change costs: in how many files of the product an event type or a knob is named, and that a decision which nothing
but its own class knows is stored, told and forgotten like any other.

A file counts when the name stands anywhere in it, in a comment too. To what is counted the generated page comes
(docs/events.md or docs/policy.md), and the tests of what it does.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from dds_adapters.kubernetes.publish import publisher_tasks
from dds_adapters.kubernetes.write import scaler_tasks
from dds_core import PUBLISHER, SCALER
from dds_core.events import Decision
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import DriverPolicy, LimitPolicy, Policy, SchedulerPolicy
from tests.project.test_import_rules import REPOSITORY, SOURCE_ROOTS

FILES = 5
"""Its class; the rule; the fold; the task that it becomes, and the write. With the generated page: six."""
SHARED = {one.__name__ for one in SCALER.events if one in PUBLISHER.events}
MORE = {
    **dict.fromkeys(SHARED, 15),  # what runs, replays, measures or tells of components has to know them
    # the steps of lives: made by several rules, measured, told in Kubernetes Events, logged, kept as histories, shown by views of
    # the SQL log
    "ClaimMoved": 15,
    "DeviceMoved": 13,
    **dict.fromkeys(
        ("AttachOrdered", "HandOver", "DevicesGiven", "DetachOrdered", "PoolPublished", "PoolWithdrawn"), 8
    ),  # told outside too
    **dict.fromkeys(("VictimMarked", "ClaimsListWanted"), 6),  # the rules of a hold, too: it wants a list, then a mark
    **dict.fromkeys(("ExchangeBegun", "OperatorNudged"), 6),  # they decide on the stage of a wait, too
}
"""Types that are named in more files."""

KNOB_FILES = 3
"""Its definition, with bounds and words; the rule that reads it; one that says or needs it besides. With the generated page:
four."""
MORE_KNOBS = {
    "mode": 17,  # decides what may be written at all, and so what a history can advise, and whether a run says anything
    "hand_over": 7,  # the ways to steer need other permissions; the doctor, the status and histories say which it is
    "label_nodes": 5,  # needs another permission, and the doctor looks at labels
    "adopt": 4,
    "prewarm": 4,  # and to the judge of random fleets: what is kept ahead of demand is not made in vain
    "schedulers": 4,  # whether they may be dealt with by exchanges is said by the doctor too
    "no_removal_seconds": 5,  # said by the doctor, to people who ask why a device goes, and to a fitted model's reference
    "cool_down_seconds": 4,  # for so long, too, what came too late for a claim is kept; and to the judge of random fleets
    **dict.fromkeys(("scan_interval_seconds", "binding_timeout_seconds"), 4),  # to that, too
    "no_allocation_seconds": 5,  # and to the judge of random fleets: for how long what was announced binds
}


@cache
def product() -> dict[Path, str]:
    roots = (REPOSITORY / folder / package for package, folder in SOURCE_ROOTS.items())
    return {path: path.read_text(encoding="utf-8") for root in roots for path in root.rglob("*.py")}


@cache
def words() -> dict[str, int]:
    """For each word of the product the number of files that it stands in; what is to hold of anything, whatever it is, costs
    nothing when something new comes."""
    counted = (text for path, text in product().items() if path.name != "invariants.py")
    return Counter(word for text in counted for word in set(re.findall(r"\w+", text)))


EVENTS = dict.fromkeys(one.__name__ for one in (*SCALER.events, *PUBLISHER.events))


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_type_is_named_in_few_files(name: str) -> None:
    assert words()[name] <= MORE.get(name, FILES)


@cache
def knobs() -> dict[str, int]:
    """For each knob the number of files that read it: an attribute of something called policy, or of what a policy gives."""
    found: Counter[str] = Counter()
    for path, text in product().items():
        if path.name != "policy.py":
            found.update(set(_read(ast.parse(text))))
    return found


def _read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.search(r"polic|knobs|publishing", ast.unparse(node.value)):
            yield node.attr


@pytest.mark.parametrize("policy", [Policy, SchedulerPolicy, LimitPolicy, DriverPolicy, PublishPolicy])
def test_a_knob_is_read_in_few_files(policy: type[BaseModel]) -> None:
    read = {name: 1 + knobs()[name] for name in policy.model_fields}
    assert {name: files for name, files in read.items() if files > MORE_KNOBS.get(name, KNOB_FILES)} == {}


def test_what_is_to_be_written_has_a_task_and_nothing_else_has() -> None:
    for component, table in ((SCALER, scaler_tasks._TABLE), (PUBLISHER, publisher_tasks._TABLE)):
        decisions = [one for one in component.events if issubclass(one, Decision)]
        assert {one for one in decisions if one.written} == table.keys()


# -- a decision that is new ----------------------------------------------------------------------------------------------

CHANGES = {
    "scaler/events.py": {
        "# -- transitions ---": '''class Polished(OfDevice, frozen=True):
    """Polish the device."""

    level: ClassVar[Level] = "warning"

    cloth: str

    def words(self, names: Names) -> str:
        return f"polish {names.name(self.resource)} with {self.cloth}"


# -- transitions ---''',
        "register(UsedStamped, ": "register(UsedStamped, Polished, ",
    },
    "scaler/fold/decisions.py": {
        "    e.UsedStamped: nothing,": "    e.UsedStamped: nothing,\n    e.Polished: nothing,"
    },
    "scaler/rules/devices.py": {
        "import DeviceMoved, UsedStamped": "import DeviceMoved, Polished, UsedStamped",
        '        if move.trigger == "freed":': """        if move.trigger == "requested":
            work.emit_once(Polished(resource=uid, mode=work.state.mode, cloth="silk"), uid)
        if move.trigger == "freed":""",
    },
}
"""By file of the core, what is put in the place of what: a new decision, whole but for its write."""

SCRIPT = """
import sys
from dds_core import SCALER, Engine, MemoryLog, events as e, verify
from dds_core.model import FabricResource
from dds_core.replay import moments
from dds_core.timeline import render_text
from dds_core.timeline.telling import Known

def told(mode):
    resource = FabricResource("uid", "gpu-0")
    yield e.Started("t", SCALER.fingerprint, 1, 1, mode)
    yield e.PolicyChanged({"mode": mode})
    yield e.Synced()
    yield e.difference(None, resource)
    if mode == "attach":
        yield e.WriteRefused("id", "Polished", "uid", 403, "Forbidden")
    yield e.Started("t", SCALER.fingerprint, 1, 2, mode)
    yield e.Synced()

for mode in ("observe", "attach"):
    engine, log = Engine(), MemoryLog("t/scaler", cluster="c", recorded_at=0)
    epoch = log.take_epoch(0)
    steps = list(engine.run((at, fact) for at, fact in enumerate(told(mode), 1)))
    log.append([step.group(n) for n, step in enumerate(steps)], epoch=epoch, recorded_at=9)
    assert verify(log.read(), SCALER).ok
    (polished,) = [one for step in steps for one in step.decisions if type(one).__name__ == "Polished"]
    assert (polished.level, polished.about(Known())) == ("warning", {"mode": mode, "device": "uid"})
    subject = SCALER.telling.directory().read(moments(log.read(), SCALER)).find("gpu-0")
    text = render_text(SCALER.telling.timeline(moments(log.read(), SCALER), subject))
    assert ("dds would" if mode == "observe" else "dds decided to") + " polish gpu-0 with silk" in text, text
    state = engine.state
    shown, refused = polished.key in state.notes.last_emitted, ("Polished", "uid") in state.notes.refusals
    assert (shown, refused) == (mode == "observe", mode == "attach")
    engine.feed(e.FabricResourceGone("uid"), 20)
    assert polished.key not in state.notes.last_emitted
print(sys.modules["dds_core"].__file__)
"""


def test_a_new_decision_is_three_files_of_the_core(tmp_path: Path) -> None:
    """Its class, its fold, its rule: then it is stored, verified, told in timelines and log lines, tried later when it is
    refused, and forgotten with its object. What writes it to the cluster are two files more."""
    core = shutil.copytree(REPOSITORY / "dds_core", tmp_path / "dds_core", ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in CHANGES.items():
        text = (core / name).read_text(encoding="utf-8")
        for old, new in changes.items():
            assert text.count(old) == 1, f"{name}: {old}"
            text = text.replace(old, new)
        (core / name).write_text(text, encoding="utf-8")
    run = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(core / "__init__.py")
    assert len(CHANGES) + 2 <= FILES
