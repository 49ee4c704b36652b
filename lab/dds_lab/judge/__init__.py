"""The judges of runs: they watch a lab while it runs, and record a finding for everything that a scaler or publisher must never
do.

    with Lab.virtual(scenario) as lab:
        judge = Judge(lab)
        lab.run()
    assert not judge.findings

They compare what claims need and hold with what physically happens on the fabric, at that instant. They read no log and do not
use what a scaler or publisher believes, so they can judge any scaler and any publisher.

`scaler` and `publisher` have the rules. `claims` and `pools` have the views of the lab that the rules use.
"""

from dds_lab.judge.cluster_view import Finding
from dds_lab.judge.publisher import PoolsJudge
from dds_lab.judge.scaler import Judge

__all__ = ["Finding", "Judge", "PoolsJudge"]
