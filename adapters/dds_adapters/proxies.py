"""The proxy to a host, as HTTPS_PROXY and NO_PROXY of the environment say (or their lower-case forms, which count more). Other
variables are not read. What goes through a proxy goes through a tunnel: it sees a name and a port, and the TLS is the host's."""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from dds_core.errors import InputError


class Proxy(NamedTuple):
    """Where it is, and its user with password, if it wants one."""

    host: str
    port: int
    login: tuple[str, str] | None


def proxy_to(host: str, port: int) -> Proxy | None:
    """The proxy for https to this host and port; None for the direct way. Raises InputError, without the value, for a proxy that
    is not http://host:port."""
    told = _told("HTTPS_PROXY")
    if not told or _excepted(host.lower(), port, _told("NO_PROXY").lower()):
        return None
    try:
        parts: SplitResult | None = urlsplit(told if "://" in told else f"http://{told}")
        found = (parts.scheme, parts.hostname, parts.port or 80) if parts else None
    except ValueError:
        parts = found = None
    if parts is None or found is None or found[0] != "http" or not found[1]:
        raise InputError("is not http://host:port", where="HTTPS_PROXY", fix="name the proxy so, or leave it out")
    return Proxy(found[1], found[2], login_of(parts))


def login_of(proxy: SplitResult) -> tuple[str, str] | None:
    """User and password of a proxy's URL; None without a user."""
    return (unquote(proxy.username), unquote(proxy.password or "")) if proxy.username else None


def authorization(login: tuple[str, str]) -> dict[str, str]:
    """The header that logs in to a proxy, in UTF-8."""
    return {"Proxy-Authorization": f"Basic {b64encode(':'.join(login).encode()).decode()}"}


def _told(name: str) -> str:
    return (os.environ.get(name.lower()) or os.environ.get(name, "")).strip()


def _excepted(host: str, port: int, rules: str) -> bool:
    """Whether a rule names the host: `*`, a name and all below it (with a dot before it or not), an address, a network; a port is
    optional."""
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    for rule in filter(None, (one.strip() for one in rules.split(","))):
        name = rule.removesuffix(f":{port}") if rule.count(":") == 1 or rule.startswith("[") else rule
        name = name.strip("[]").removeprefix("*.").removeprefix(".")
        if rule == "*" or host == name or (address is None and host.endswith(f".{name}")):
            return True
        try:
            if address is not None and address in ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """A connection for TLS to this host and port, through the proxy if there is one. Raises OSError, InputError."""
    proxy = proxy_to(host, port)
    if proxy is None:
        return socket.create_connection((host, port), seconds)
    way = HTTPConnection(proxy.host, proxy.port, timeout=seconds)
    way.set_tunnel(host, port, authorization(proxy.login) if proxy.login else None)
    try:
        way.connect()
    except HTTPException as error:
        raise OSError(f"the proxy answers with {type(error).__name__}") from None
    return way.sock
