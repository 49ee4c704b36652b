"""Small traces of the same forms as the real ones, made by hand; and where the real ones are, if they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[4]

DLRM = """\
instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,\
disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time
i_0,HN,a_0,4,4,1,1,25,25,16.0,16.0,80.0,80.0,8,,,
i_1,CN,a_0,64,64,0,0,25,25,160.0,160.0,80.0,80.0,1,,,9000
i_2,HN,a_0,4,4,1,1,25,25,16.0,16.0,80.0,80.0,8,,,1800
i_3,HN,a_1,8,8,1,1,25,25,32.5,32.5,80.0,80.0,-1,600,660,4260
i_4,HN,a_1,8,8,1,1,25,25,32.5,32.5,80.0,80.0,-1,3600,3600,3600
i_5,HN,a_1,8,8,1,1,25,25,32.5,32.5,80.0,80.0,-1,7000,7200,
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,4000,8192,1,1000,,LS,Running,0,11000,10
pod-1,4000,8192,0,0,,LS,Succeeded,900,1000,910
pod-2,4000,8192,1,300,M2|M1,BE,Running,1500,9000,1500
pod-3,9000,0,2,1000,M1|M1,LS,Failed,2000,4000,2100
pod-4,1000,1024,1,1000,M9|M1,LS,Pending,2500,2600,
pod-5,90000,1024,1,1000,,LS,Succeeded,3000,5000,3000
pod-6,1000,1024,1,1000,,LS,Succeeded,100,1000,200
"""
NODES = """\
sn,cpu_milli,memory_mib,gpu,model
node-0,32000,65536,0,
node-1,64000,65536,4,M1
node-2,64000,65536,2,M2
node-3,16000,65536,0,
"""
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 03:00:00,7200.0,12,86400.0,0aa001
2017-10-09 00:00:10,100.0,1,100.0,0aa001
2017-10-09 00:00:00,10800.0,2,21600.0,77

"""


def shared(name: str) -> Path:
    """A file of the folder `shared/traces` beside the repository; of a worktree, beside the checkout that it belongs to. The
    test is skipped where it is not."""
    checkouts = [REPOSITORY]
    pointer = REPOSITORY / ".git"
    if pointer.is_file():
        checkouts.append(Path(pointer.read_text(encoding="utf-8").partition(": ")[2].strip()).parents[2])
    for one in checkouts:
        path = one.parent / "shared" / "traces" / name
        if path.exists():
            return path
    pytest.skip(f"shared/traces/{name} is not there")


def sample(folder: Path, name: str, text: str) -> Path:
    """A file with this text, gzipped when its name ends in .gz."""
    path = folder / name
    packed = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    path.write_bytes(packed)
    return path


def replaced(text: str, old: str, new: str) -> str:
    """The text with one thing in it changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)
