"""A self-made certificate for the public port of `./levata up --tls`.

Clients must be given it, because nobody else vouches for it: `certificate.pem` in the folder is all that they need to
trust. It stays the same until it is about to run out or the names have changed, so that they need it only once.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.edge.configuration import Certificate

# The longest that browsers take.
VALID_DAYS = 397
# A certificate is made anew that runs out within these.
RENEW_DAYS = 30
# Clocks differ.
EARLIER_HOURS = 1


def self_made(folder: Path, hosts: Sequence[str] = ()) -> Certificate:
    """The certificate in `folder` for this machine and `hosts`, made if there is none that will do."""
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    names = list(_names([*hosts, "localhost", "127.0.0.1", "::1", socket.gethostname()]))
    if not _will_do(files, names):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(files, names)
    return files


def _names(hosts: Sequence[str]) -> Iterator[x509.GeneralName]:
    for host in dict.fromkeys(hosts):
        try:
            yield x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            yield x509.DNSName(host)


def _will_do(files: Certificate, names: Sequence[x509.GeneralName]) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(files.chain.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return (
        certificate.not_valid_before_utc <= datetime.now(UTC)
        and certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=RENEW_DAYS)
        and certificate.public_key() == key.public_key()
        and set(names) <= set(covered)
    )


def _make(files: Certificate, names: Sequence[x509.GeneralName]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Levata, self-made")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=EARLIER_HOURS))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Good for nothing but this server: whoever trusts it trusts no other certificate by that.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # If only one of the two is written, they do not belong together, and both are made anew.
    _write(files.key, private, 0o600)
    _write(files.chain, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write the file whole or not at all, with `mode` from its first moment."""
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    unfinished.replace(path)
