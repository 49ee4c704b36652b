"""Packs what the built-in kinds may hold: `python -m tests.lab.schemas.generate` writes the lab's data file anew.

The facts are the OpenAPI definitions of Kubernetes 1.36 as the PyPI package kubernetes-validate carries them (Apache-2.0).
Only what the served kinds reach is kept, without descriptions. The output is a function of the package alone.
"""

import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

import dds_lab.api
from dds_lab.api.kinds import BUILT_IN

VERSION = "v1.36.0-local"
TARGET = Path(next(iter(dds_lab.api.__path__))) / "data" / "kinds-1.36.json.gz"
BODIES = (
    ("", "v1", "Binding"),
    ("policy", "v1", "Eviction"),
    ("autoscaling", "v1", "Scale"),
    ("", "v1", "DeleteOptions"),
)
"""What is sent to subresources and with a deletion, and has no plural of its own."""

LEAVES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
}
FORMATS = {("string", "byte"): "bytes", ("string", "date-time"): "time"}
REFERENCE = "#/$defs/"


def packed() -> dict[str, Any]:
    """The whole content of the data file."""
    definitions = _definitions()
    roots = {kind: _root(definitions, *kind) for kind in _wanted()}
    kept: dict[str, Any] = {}
    for root in roots.values():
        _keep(root, definitions, kept)
    return {
        "source": f"kubernetes-validate (PyPI), kubernetes-json-schema {VERSION}, from the OpenAPI of Kubernetes 1.36",
        "kinds": {"/".join(kind): root for kind, root in sorted(roots.items())},
        "definitions": dict(sorted(kept.items())),
    }


def encoded() -> bytes:
    """The data file, bytes that depend on nothing but the content."""
    text = json.dumps(packed(), sort_keys=True, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def _definitions() -> dict[str, Any]:
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / VERSION
    found: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return found


def _wanted() -> list[tuple[str, str, str]]:
    return [*{(r.group, r.version, r.kind) for r in BUILT_IN if not r.since}, *BODIES]


def _root(definitions: dict[str, Any], group: str, version: str, kind: str) -> str:
    fact = {"group": group, "version": version, "kind": kind}
    names = [name for name, body in definitions.items() if fact in body.get("x-kubernetes-group-version-kind", ())]
    if len(names) != 1:
        raise LookupError(f"{group}/{version} {kind}: {names or 'no definition'} in {VERSION}")
    return names[0]


def _keep(name: str, definitions: dict[str, Any], kept: dict[str, Any]) -> None:
    if name in kept:
        return
    kept[name] = {}
    kept[name].update(_node(definitions[name]))
    for reference in _references(kept[name]):
        _keep(reference, definitions, kept)


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["ref"]] if isinstance(node.get("ref"), str) else []
        return own + [name for value in node.values() for name in _references(value)]
    return []


def _node(body: dict[str, Any]) -> dict[str, Any]:
    node = _kind_of_node(body)
    for source, target in (
        ("required", "required"),
        ("x-kubernetes-list-type", "list_type"),
        ("x-kubernetes-list-map-keys", "list_keys"),
        ("x-kubernetes-patch-merge-key", "patch_key"),
        ("x-kubernetes-patch-strategy", "patch_strategy"),
    ):
        if source in body:
            node[target] = body[source]
    if body.get("x-kubernetes-map-type") == "atomic":
        node["atomic"] = True
    return node


def _kind_of_node(body: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in body:
        name = body["$ref"].removeprefix(REFERENCE)
        return {"type": LEAVES[name]} if name in LEAVES else {"ref": name}
    kinds = body.get("type", "any")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "array":
        return {"type": "list", "items": _node(body["items"])}
    if "properties" in body:
        return {"type": "object", "fields": {name: _node(part) for name, part in body["properties"].items()}}
    if isinstance(body.get("additionalProperties"), dict):
        return {"type": "map", "items": _node(body["additionalProperties"])}
    if kind == "object":
        return {"type": "any"}
    node = {"type": FORMATS.get((kind, body.get("format", "")), kind)}
    if body.get("format") == "int32":
        node["bits"] = 32
    return node


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(encoded())
