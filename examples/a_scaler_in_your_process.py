"""The live scaler inside a program of one's own, which is told of every commit.

    python examples/a_scaler_in_your_process.py KUBECONFIG LOG.sqlite3 [SECONDS]

Try it against `dds lab up`: it prints what claims go through and how long they waited, and ends after SECONDS (60), in order.
"""

import sys
import threading

from dds_adapters import run_scaler
from dds_adapters.runtime.loop import Committed
from dds_core import Policy, State
from dds_core.scaler.events import ClaimMoved

began: dict[str, int] = {}


def told(committed: Committed, state: State) -> None:
    """What is in the log now: the only thing that counts."""
    for moved in committed.step.transitions:
        if not isinstance(moved, ClaimMoved) or moved.source == moved.target:
            continue
        life, at = state.lifecycle.lives.get(moved.claim), committed.step.at
        name = f"{life.namespace}/{life.name}" if life is not None else moved.claim
        print(f"claim {name} is {moved.target}: {moved.cause}", flush=True)
        if moved.target == "Pending":
            began.setdefault(moved.claim, at)
        elif moved.target == "Bound" and moved.claim in began:
            print(f"claim {name} waited {(at - began.pop(moved.claim)) / 1e6:.1f} s for its device", flush=True)


if __name__ == "__main__":
    stop = threading.Event()
    threading.Timer(float(sys.argv[3]) if len(sys.argv) > 3 else 60.0, stop.set).start()
    run_scaler(
        kubeconfig=sys.argv[1],
        log=sys.argv[2],
        policy=Policy(mode="attach"),
        on_commit=told,
        on_error=lambda part, error: print(f"{part}: {error}", file=sys.stderr, flush=True),
        stop=stop,
    )
    print("ended in order")
