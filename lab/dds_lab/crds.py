"""The custom kinds of the composable resource operator, as CustomResourceDefinitions (`crds.yaml`)."""

from importlib import resources
from typing import Any

import yaml

DEFINITIONS: tuple[dict[str, Any], ...] = tuple(
    yaml.safe_load_all((resources.files(__package__) / "crds.yaml").read_text("utf-8"))
)
COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES = DEFINITIONS
"""So many devices of a model for a node; and one device of one request."""
