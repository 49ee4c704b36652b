"""`dds diagram`: the two lives as pictures."""

from __future__ import annotations

import sys

import click

from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, mermaid


@click.command("diagram", short_help="Print a life as a state diagram.")
@click.argument("life", type=click.Choice(["claim", "device"]), default="claim")
def diagram(life: str) -> None:
    """Print the life of a claim (the default) or of a device as a mermaid state diagram.

    It is made from the table that the engine itself uses.
    """
    sys.stdout.write(mermaid(CLAIM_TABLE if life == "claim" else DEVICE_TABLE))
