"""E-mail addresses: one spelling for each mailbox."""

import re
from typing import Final

import idna

ADDRESS_BYTES_MAX: Final = 254
_LOCAL_BYTES_MAX: Final = 64
# RFC 5321's dot-string; the quoted form, and mailboxes at numeric hosts, belong to nobody who plays.
_LOCAL: Final = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN: Final = re.compile(r"(?:[a-z0-9-]+\.)+(?![0-9]+$)[a-z0-9-]{2,}")


def normalised(text: str) -> str | None:
    """The address as we keep it and write to it; None where there can be no such mailbox.

    Lower case throughout: phones begin a field with a capital, and where a server did tell Anna from anna, a code for
    one must not go to the other. The domain is in its ASCII form (IDNA 2008).
    """
    local, at, domain = text.strip().rpartition("@")
    local = local.lower()
    if not at or len(local) > _LOCAL_BYTES_MAX or not _LOCAL.fullmatch(local):
        return None
    try:
        domain = idna.encode(domain, uts46=True, std3_rules=True).decode()
    except idna.IDNAError:
        return None
    address = f"{local}@{domain}"
    return address if _DOMAIN.fullmatch(domain) and len(address) <= ADDRESS_BYTES_MAX else None
