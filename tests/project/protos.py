"""Make the modules of protobuf messages anew from their .proto files: `python -m tests.project.protos`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2] / "adapters"
FOLDER = Path("dds_adapters/autoscaler")


def make(out: Path) -> None:
    """Write the modules below `out`, which is a source root."""
    protos = sorted(str(one) for one in (ROOT / FOLDER).glob("*.proto"))
    include = [f"-I{ROOT}", f"-I{files('grpc_tools') / '_proto'}"]
    code = protoc.main(["protoc", *include, f"--python_out={out}", f"--pyi_out={out}", *protos])
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    make(ROOT)
