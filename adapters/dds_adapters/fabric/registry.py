"""Makes a provider from settings, and loads only its libraries. Other packages add APIs by entry points `dds.fabrics`."""

from __future__ import annotations

from collections.abc import Callable

from dds_adapters import plugins
from dds_adapters.fabric.fabric_settings import FabricSettings, Outside, check
from dds_adapters.fabric.file import FileProvider
from dds_adapters.fabric.provider import Provider
from dds_core.errors import InputError, install_hint

Opener = Callable[[FabricSettings, Outside], Provider]
"""What an entry point gives. Raises InputError for unusable settings, and sends nothing yet."""


def open_provider(settings: FabricSettings, outside: Outside | None = None) -> Provider:
    """A provider for these settings. An inventory is read; nothing is sent.

    Raises InputError for an unusable setting or a missing library, FabricOdd for an inventory with faults.
    """
    check(settings)
    opener = _OWN.get(settings.api) or plugins.load(plugins.FABRICS, settings.api)
    if not callable(opener):
        raise InputError(
            f"{settings.api!r} gives no function", where=plugins.FABRICS, fix="mend or remove that package"
        )
    provider: Provider = opener(settings, outside or Outside())
    return provider


def require_http(endpoint: str) -> None:
    """Raise InputError if the HTTP library is missing, or the endpoint's host name is invalid."""
    try:
        import httpx
    except ImportError:
        raise InputError("the package httpx is not installed", fix=install_hint("serve")) from None
    try:
        httpx.URL(endpoint).host.encode("idna")  # as name resolution does
    except (httpx.InvalidURL, ValueError):
        raise InputError("is not a URL", where="fabric endpoint", fix="give SCHEME://HOST[:PORT]") from None


def _file(settings: FabricSettings, outside: Outside) -> Provider:
    assert settings.inventory is not None
    return FileProvider(settings.inventory)


def _nec(settings: FabricSettings, outside: Outside) -> Provider:
    require_http(settings.endpoint)
    from dds_adapters.fabric.nec.cdim import NecProvider

    return NecProvider(settings, outside)


def _fsas(settings: FabricSettings, outside: Outside) -> Provider:
    require_http(settings.endpoint)
    from dds_adapters.fabric.fsas.credentials import Folder
    from dds_adapters.fabric.fsas.managers import CmProvider, FmProvider, Session

    assert settings.credentials is not None
    session = Session(settings, Folder(settings.credentials), outside)
    return CmProvider(session, settings) if settings.api == "cm" else FmProvider(session, settings)


_OWN: dict[str, Opener] = {"fm": _fsas, "cm": _fsas, "nec": _nec, "file": _file}
