"""A process that contends for a lease until it is stopped.

`python -m tests.realtime.kubernetes.contender KUBECONFIG CONTEXT NAME FILE DURATION DEADLINE RETRY`

While it is certain to lead it writes `INSTANT NAME` to the file that all contenders share, over and over; the instant is of a
clock that all processes of the machine share. On SIGTERM it stops writing, gives the lease up and ends with 0; when it loses the
lease it ends with 3.
"""

import os
import signal
import sys
import threading
import time

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.lease.elector import Elector, LeaseLost, steady
from dds_adapters.kubernetes.lease.state import LeaseSettings

NAMESPACE, LEASE = "default", "dds"
PAUSE_S = 0.01


def main(kubeconfig: str, context: str, name: str, path: str, settings: LeaseSettings) -> int:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    elector = Elector(Cluster(kubeconfig, context), NAMESPACE, LEASE, name, settings, on_error=say)
    elector.start()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        while not ended.is_set():
            if not elector.lead(timeout=PAUSE_S):
                continue
            at = steady()  # before it is asked, so that a pause in between makes it earlier and not later
            if elector.remaining() > 0:
                os.write(file, f"{at:.6f} {name}\n".encode())
            time.sleep(PAUSE_S)
    except LeaseLost as lost:
        say(str(lost))
        return 3
    return 0 if elector.stop() else 4


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    kubeconfig, context, name, path, *durations = sys.argv[1:]
    sys.exit(main(kubeconfig, context, name, path, LeaseSettings(*map(float, durations))))
