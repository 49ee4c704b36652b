"""The same fleet gives the same bytes whatever the hash seed: what is in a set has no order."""

from __future__ import annotations

import subprocess
import sys

from tests.support.commands import environment

PLAY = """
import hashlib, sys
from dds_lab.api.store import Store
from dds_lab.check.fleets import fleet_of
from dds_lab.check.playing import fleet_run

told, put, remove = hashlib.sha256(), Store.put, Store.remove

def put_(store, key, path, obj):
    told.update(repr((key, path, obj)).encode())
    return put(store, key, path, obj)

def remove_(store, key, path):
    told.update(repr((key, path)).encode())
    return remove(store, key, path)

Store.put, Store.remove = put_, remove_
for seed in map(int, sys.argv[1:]):
    with fleet_run(fleet_of(seed)) as run:
        run.play()
        for log in run.logs.values():
            told.update(log.head().hash)
    print(seed, told.hexdigest())
"""
FLEETS = ("24",)
"""Its scaler stands still, and lists everything anew."""


def test_two_hash_seeds_play_the_same_fleets() -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", PLAY, *FLEETS],
            env=environment({"PYTHONHASHSEED": seed}),
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = ([*one.communicate(timeout=200)[0].splitlines(), one.returncode] for one in runs)
    assert first == second and first[-1] == 0
