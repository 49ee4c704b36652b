"""A controller of one's own on one page: it looks at the cluster each second, decides, keeps the log, and writes.

    python examples/custom_controller.py KUBECONFIG LOG.sqlite3 [ROUNDS]

Try it against `dds lab up`. It does not say whether devices can be guarded (`Capabilities`) and lists no claims on request
(`ClaimsListed`), so there is no exchange, no hold and no detach. `dds serve` does; it also watches in the place of listing,
writes in several threads, and elects a leader.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from random import Random

import msgspec

from dds_adapters import sql
from dds_adapters.kubernetes import Translator
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.watch.watch_spec import OPTIONAL, VERSIONS, watched_by_autoscaler
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.scaler_tasks import tasks_of
from dds_adapters.kubernetes.write.tasks import Task
from dds_core import FINGERPRINT, SCALER, Engine, Policy, Step, events, fold_log


def now() -> int:
    return time.time_ns() // 1000


def main(kubeconfig: str, path: str, rounds: int) -> None:
    sql.upgrade(f"sqlite:///{path}")
    cluster, outbox, known, ordinal = (
        Cluster(kubeconfig),
        Outbox(Random()),
        defaultdict[str, dict[str, bytes]](dict),
        count(),
    )
    with sql.Database(f"sqlite:///{path}") as database:
        log = database.open_log("example/scaler", cluster="example", recorded_at=now())
        engine = Engine(fold_log(log.read_lean(), SCALER))
        translator, epoch = Translator(engine.state), log.take_epoch(now())

        def look() -> Iterator[events.Event]:
            """What has changed since the last look. It lists what the autoscaler follows, which is what the scaler follows but
            with all pods: the scaler's own list has only pods without a node, so a pod that got one would look deleted."""
            for one in (one for one in watched_by_autoscaler() if one.resource not in OPTIONAL):
                items = cluster.page(one.resource, one.versions[0], scope=one.scope).items or ()
                seen = {msgspec.json.decode(item)["metadata"]["uid"]: bytes(item) for item in items}
                for uid in known[one.resource].keys() - seen.keys():
                    yield from translator.translate(one.resource, "DELETED", known[one.resource][uid])
                for raw in seen.values():
                    yield from translator.translate(one.resource, "ADDED", raw)
                known[one.resource] = seen

        def take(steps: Iterator[Step]) -> None:
            """Commit each step, and only then write; each outcome is a new fact. A step has changed the state before `append`:
            if that raises, this state is ahead of the log, so the program ends, and the next start folds the log anew."""
            for step in steps:
                log.append([step.group(next(ordinal))], epoch=epoch, recorded_at=now())
                for decision in step.decisions:
                    for told in outbox.put(tasks_of(decision, str(step.at), step.at, engine.state), time.monotonic()):
                        take(happened([told]))
                while isinstance(task := outbox.next(time.monotonic()), Task):
                    print(f"{task.action} {task.target}", flush=True)
                    result = task.write.carry_out(cluster, lambda resource: VERSIONS[resource][0])
                    take(happened([outbox.finished(task, result, time.monotonic())]))

        def happened(facts: Iterable[events.Event | None]) -> Iterator[Step]:
            """Feed the facts, each after the deadlines due by now."""
            return engine.run((now(), fact) for fact in facts if fact is not None)

        outbox.limit("attach")
        take(happened([events.Started("example", FINGERPRINT, SCALER.projection, epoch, "attach")]))
        take(happened([events.PolicyChanged(Policy(mode="attach").model_dump(mode="json"))]))
        for number in range(rounds):
            take(engine.advance(now()))
            take(happened(look()))
            if number == 0:
                take(happened([events.Synced()]))
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 60)
