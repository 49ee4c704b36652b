"""The settings of a fabric: every flag, the reference driver's variables that stand in for them, and how they become what a
provider is told. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from dds_adapters.fabric import APIS, Api, FabricSettings
from dds_adapters.fabric.settings import check
from dds_adapters.runtime.settings import CONNECTIONS, SCAN_SECONDS
from dds_commands.settings import DEFAULT, Row, setting
from dds_core.errors import InputError

PROVIDER_ID, BARE_METAL = "provider-id", "bmh"

FABRIC = (
    setting(
        "--fabric",
        "Who knows the free devices: a manager's API (fm, cm, nec), or an inventory in a file, which is the default.",
        type=click.Choice(APIS),
    ),
    setting("--fabric-endpoint", "Address of the manager.", metavar="URL"),
    setting("--tenant-id", "UUID of the tenant (fm, cm).", metavar="UUID"),
    setting("--cluster-id", "UUID of the cluster (cm).", metavar="UUID"),
    setting("--credentials-folder", "Folder with a file for each of the credentials (fm, cm).", metavar="FOLDER"),
    setting("--inventory", "What there is, in a YAML file (file).", metavar="FILE"),
)
"""Which fabric."""

MACHINE_IDS = setting(
    "--machine-ids",
    "What says which machine a node is: its provider ID, or the annotation of its BareMetalHost.",
    type=click.Choice((PROVIDER_ID, BARE_METAL)),
    default=PROVIDER_ID,
    show_default=True,
)

ASKING = (
    setting(
        "--scan-interval",
        "Seconds from one round of questions to the next.",
        type=click.FloatRange(1, 3600),
        metavar="SECONDS",
        default=SCAN_SECONDS,
        show_default=True,
    ),
    setting(
        "--fabric-connections",
        "Questions that are asked side by side.",
        type=click.IntRange(1, 64),
        metavar="NUMBER",
        default=CONNECTIONS,
        show_default=True,
    ),
    MACHINE_IDS,
)
"""How it is asked."""


class Found(NamedTuple):
    """What a setting came to, and from where when it was not from its own flag, variable or file."""

    value: str | None
    origin: str = ""


_STAND_IN = {"fabric_endpoint": "CDI_ENDPOINT", "tenant_id": "TENANT_ID", "cluster_id": "CLUSTER_ID"}


def fabric_of(given: Mapping[str, Any], environment: Mapping[str, str]) -> FabricSettings:
    """What the settings say. The variables of the reference driver (CDI_ENDPOINT, TENANT_ID, CLUSTER_ID, USE_CM) stand in for
    what is not given. Raises InputError, naming the flag, for what cannot be used."""
    found = {name: one.value or "" for name, one in _found(given, environment)}
    credentials, inventory = found["credentials_folder"], found["inventory"]
    api: Api = next(one for one in APIS if one == found["fabric"])
    settings = FabricSettings(
        api=api,
        endpoint=found["fabric_endpoint"],
        tenant=found["tenant_id"],
        cluster=found["cluster_id"],
        credentials=Path(credentials) if credentials else None,
        inventory=Path(inventory) if inventory else None,
    )
    check(settings)
    return settings


def bare_metal_hosts(given: Mapping[str, Any]) -> bool:
    """Whether they say which machine a node is."""
    return bool(given["machine_ids"] == BARE_METAL)


def used_fabric(row: Row, given: Mapping[str, Any], environment: Mapping[str, str]) -> Row:
    """A setting with what stands in for it where nothing was said."""
    found = dict(_found(given, environment)).get(row.name.replace("-", "_"))
    if found is None or row.origin != DEFAULT:
        return row
    return row._replace(value=found.value or "-", origin=found.origin or row.origin)


def _found(given: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    yield "fabric", _api(given, environment)
    for name, variable in _STAND_IN.items():
        text = environment.get(variable, "")
        yield name, Found(text, f"environment {variable}") if not given[name] and text else Found(given[name])
    for name in ("credentials_folder", "inventory"):
        yield name, Found(given[name])


def _api(given: Mapping[str, Any], environment: Mapping[str, str]) -> Found:
    """As the reference driver chooses; a file where nobody chose, and no manager has an address."""
    if given["fabric"]:
        return Found(given["fabric"])
    if environment.get("CDI_ENDPOINT") and not given["inventory"]:
        return Found(*_reference(environment.get("USE_CM", "")))
    if given["fabric_endpoint"]:
        raise InputError(
            "a manager's address is given, and not which API it has", where="--fabric", fix="give fm, cm or nec"
        )
    if not given["inventory"]:
        fix = "give --inventory FILE, or --fabric fm, cm or nec and --fabric-endpoint"
        raise InputError("nothing says what the fabric has free", where="--fabric", fix=fix)
    return Found("file")


def _reference(use_cm: str) -> tuple[str, str]:
    if use_cm.strip().lower() in ("1", "t", "true"):
        return "cm", "environment USE_CM"
    return "fm", "environment CDI_ENDPOINT"
