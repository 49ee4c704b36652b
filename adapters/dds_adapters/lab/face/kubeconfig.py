"""A kubeconfig for the lab: one cluster, and a context for each user. It holds tokens, so that only its owner may read it."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import yaml

CLUSTER = "dds-lab"


def write_kubeconfig(path: str | Path, url: str, tokens: Mapping[str, str], ca: bytes | None = None) -> None:
    """Write the file anew (mode 0600). Contexts have the keys of `tokens` as names, the first one is current."""
    cluster: dict[str, str] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    shape = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [{"name": name, "context": {"cluster": CLUSTER, "user": name}} for name in tokens],
        "current-context": next(iter(tokens), ""),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        yaml.safe_dump(shape, file, sort_keys=False)
    os.replace(part, target)
