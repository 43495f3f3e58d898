"""Domains: what floats mean while a kernel is evaluated."""

from __future__ import annotations

from collections.abc import Callable

from fpsan_tools.domains.base import Domain
from fpsan_tools.domains.ieee import Ieee
from fpsan_tools.domains.payload import Payload
from fpsan_tools.domains.real import Real
from fpsan_tools.exceptions import UnknownName

_DOMAINS: dict[str, Callable[[str | None], Domain]] = {
    "payload": Payload,
    "ieee": lambda version: Ieee(),
    "hardware": lambda version: _hardware(),
    "real": lambda version: Real(),
}


def _hardware() -> Domain:
    from fpsan_tools.domains.hardware import hardware

    return hardware()


__all__ = ["Domain", "Ieee", "Payload", "Real", "get"]


def get(domain: str | Domain, version: str | None = None) -> Domain:
    """Find a domain by name; a domain object is returned as it is.

    Args:
        domain: "payload", "ieee", "real", "hardware" or a domain object.
        version: version of the algebra, for "payload".

    Raises:
        UnknownName: for another name.
    """
    if isinstance(domain, Domain):
        return domain
    if domain not in _DOMAINS:
        raise UnknownName.of("domain", domain, _DOMAINS)
    return _DOMAINS[domain](version)
