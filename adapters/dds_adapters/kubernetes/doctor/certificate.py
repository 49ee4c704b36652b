"""The certificate of an endpoint, looked at as whoever speaks to it will: trusted, of this name, and until when.

A connection is opened and closed again; nothing is sent over it but the handshake.
"""

from __future__ import annotations

import socket
import ssl

from dds_adapters.kubernetes.doctor.fabric import Certificate
from dds_core.errors import DdsError

SECONDS = 10.0
SYSTEM = "the system's roots"
GIVEN = "the certificate that was given"


class Untrusted(DdsError):
    """The endpoint does not show a certificate that counts."""


def certificate_of(
    host: str, port: int, context: ssl.SSLContext, *, given: bool, seconds: float = SECONDS
) -> Certificate:
    """The certificate of an endpoint, by the context of whoever will speak to it; `given`: it trusts certificates that a person
    gave, and not the system's roots.

    Raises Untrusted for everything that is in the way of it.
    """
    where = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), seconds) as plain:
            plain.settimeout(seconds)
            with context.wrap_socket(plain, server_hostname=host) as secured:
                shown = secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise _refused(error, where, given) from None
    except ssl.SSLError:
        fix = "give the port on which https is spoken, TLS 1.2 or newer"
        raise Untrusted("no TLS connection comes about", where=where, fix=fix) from None
    except OSError as error:
        words = "does not answer in time" if isinstance(error, TimeoutError) else f"cannot be reached ({_name(error)})"
        raise Untrusted(words, where=where, fix="check name, port, network and network policy") from None
    ends = ssl.cert_time_to_seconds(str(shown["notAfter"])) * 1_000_000
    return Certificate(int(ends), GIVEN if given else SYSTEM)


def _refused(error: ssl.SSLCertVerificationError, where: str, given: bool) -> Untrusted:
    """In OpenSSL's words, which name what is wrong and the host that was asked for."""
    reason = error.verify_message.rstrip(".") or "it cannot be verified"
    if error.verify_code == _EXPIRED:
        fix = "renew it on the manager"
    elif error.verify_code in (_WRONG_NAME, _WRONG_ADDRESS):
        fix = "give the endpoint by the name that is in the certificate"
    elif given:
        fix = "put the certificate of the authority that signed it into the credentials' file certificate"
    else:
        fix = "put the certificate of its authority into the credentials' file certificate; the system does not know it"
    return Untrusted(f"the certificate is not trusted: {reason}", where=where, fix=fix)


def _name(error: OSError) -> str:
    return "no such name" if isinstance(error, socket.gaierror) else type(error).__name__


_EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 10, 62, 64
"""X509_V_ERR_CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH."""
