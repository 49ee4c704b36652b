"""What `make demo-nodes` shows: one pod asks for a GPU and a device comes, another asks for room and a server comes; both
leave, and first the device goes back, then the server.

    python examples/demo/nodes.py

Scaler, autoscaler, and a simulated Cluster Autoscaler that asks it, in a simulated cluster on virtual time: half an hour
passes in a second. What is printed is told by the two logs; in the end both are held against the rules once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dds_core.autoscaler.component import AUTOSCALER
from dds_core.component import Component
from dds_core.log import EventLog
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from dds_lab.actors.clusterautoscaler import CaSettings
from dds_lab.check.mixes import DEVICE, Mix, MixRun, mix_run
from dds_lab.scenario.scenario import Run
from dds_lab.time import MICROSECONDS

GPU = Run(name="wants-a-gpu", devices={DEVICE: 1}, template=True, cpu="4", delete_after=150.0)
ROOM = Run(name="wants-room", cpu="14", delete_after=200.0)
MIX = Mix(
    seed=7,
    nodes=1,
    devices=2,
    pods=((10.0, GPU), (60.0, ROOM)),
    idle=40,
    ca=CaSettings(unneeded=60.0, after_add=30.0),
)
Line = tuple[int, str]


def main() -> None:
    print("One node with 16 CPUs, two GPUs in a pool, and servers that can be powered on. Minutes and seconds:\n")
    with mix_run(MIX) as run:
        findings = run.play()
        for at, words in sorted(story(run), key=lambda line: line[0]):
            seconds = round((at - run.lab.scenario.start) / MICROSECONDS)
            print(f"  {seconds // 60:2}:{seconds % 60:02}  {words}")
        print()
        for name, log, component in logs(run):
            print(f"{name}: {verdict(log, component)}")
        for one in findings:
            raise SystemExit(f"demo-nodes: {one.rule}: {one.text}")


def logs(run: MixRun) -> list[tuple[str, EventLog, Component[Any]]]:
    return [("scaler", run.scaler_log, SCALER), ("autoscaler", run.log, AUTOSCALER)]


def verdict(log: EventLog, component: Component[Any]) -> str:
    report = verify(log.read(), component)
    return (
        f"{log.head().position} events, {'every decision is the one that the rules make' if report.ok else 'DIFFERENT'}"
    )


def story(run: MixRun) -> Iterator[Line]:
    """Both logs, as far as a person wants to know."""
    for at, run_ in MIX.pods:
        yield run.lab.scenario.start + round(at * MICROSECONDS), f"pod {run_.name} comes"
    for row in run.scaler_log.read():
        data = json.loads(row.data or b"{}")
        if row.type == "ClaimMoved" and data["source"] != data["target"]:
            yield row.occurred_at, f"scaler: its claim is {data['target']}: {data['cause']}"
        elif row.type == "DeviceMoved" and data["target"] in ("Marked", "Gone"):
            yield row.occurred_at, f"scaler: the device is {data['target']}: {data['cause']}"
    for row in run.log.read():
        data = json.loads(row.data or b"{}")
        match row.type:
            case "PodAdvised" if data["case"]:
                yield row.occurred_at, f"autoscaler: {data['text']}"
            case "GrowthAsked":
                yield row.occurred_at, f"Cluster Autoscaler asks for {data['delta']} server more"
            case "ServerOrdered":
                yield row.occurred_at, f"autoscaler: a server is ordered as {data['order']}"
            case "NodeOpened":
                yield row.occurred_at, f"autoscaler: {data['node']} has registered, with all labels, and may be used"
            case "GroupShown" if data.get("left"):
                why = ", ".join(f"{node} ({data.get('reasons', {}).get(node, 'gone')})" for node in data["left"])
                yield row.occurred_at, f"autoscaler: the group is shown without {why}"
            case "RemovalAsked":
                yield row.occurred_at, "Cluster Autoscaler finds a node that nobody needs, and asks to remove it"
            case "NodeRemoved":
                yield row.occurred_at, f"autoscaler: the server of {data['node']} is off; its Node is deleted"


if __name__ == "__main__":
    main()
