"""An API server's part in letting people see a page: who says a token that is his name is known, and `reader` may see /ui."""

from __future__ import annotations

import json

from tests.support.http_server import Asked, Said


def reviewer(one: Asked) -> Said:
    """A TokenReview, which does not know `nobody`, or a SubjectAccessReview."""
    spec = json.loads(one.body)["spec"]
    if "token" in spec:
        known = {"authenticated": True, "user": {"username": spec["token"]}} if spec["token"] != "nobody" else {}
        return Said(201, json.dumps({"status": known}).encode())
    allowed = spec["user"] == "reader" and spec["nonResourceAttributes"] == {"path": "/ui", "verb": "get"}
    return Said(201, json.dumps({"status": {"allowed": allowed}}).encode())
