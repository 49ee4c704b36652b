"""The judges of runs: they look on while a lab runs and write down what a scaler, or a publisher, must never do.

    with Lab.virtual(scenario) as lab:
        judge = Judge(lab)
        lab.run()
    assert not judge.findings

They compare what claims need and hold with what physically happens on the fabric, at the instant at which it happens. They read
no log and rest on nothing that a scaler or a publisher believes; so they find the faults of any of them.

`scaler` and `publisher` have the rules. What the two see of a lab is in `claims` and `pools`, where nothing is judged.
"""

from dds_lab.judge.claims import Finding
from dds_lab.judge.publisher import PoolsJudge
from dds_lab.judge.scaler import Judge

__all__ = ["Finding", "Judge", "PoolsJudge"]
