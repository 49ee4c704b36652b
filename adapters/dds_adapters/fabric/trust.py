"""Whom a client takes for the manager: the certificates of a PEM text, or the system's roots. Nothing here connects."""

from __future__ import annotations

import ssl

from dds_adapters.fabric.provider import FabricDenied


def trusting(pem: str) -> ssl.SSLContext:
    """A context that checks chain and name, TLS 1.2 or newer; "" trusts the system's roots, and only that does.

    Every certificate that is given is trusted by itself, also one that is no authority of its own (an intermediate one, the
    server's), and need not have every extension of RFC 5280: so the reference driver trusts them. Raises FabricDenied for a text
    without a certificate.
    """
    # What stands around the certificates is for people, who may write with any letters.
    plain = pem.encode("ascii", "ignore").decode()
    try:
        if pem and not plain:
            raise ValueError("not a letter of PEM")
        context = ssl.create_default_context(cadata=plain or None)
    except (ssl.SSLError, ValueError):
        raise FabricDenied(
            "the file certificate holds no certificate in PEM form",
            where="trust in the manager",
            fix="put the PEM text of the authority there, from its BEGIN line to its END line",
        ) from None
    if pem:
        context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
