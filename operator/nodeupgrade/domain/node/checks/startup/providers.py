"""Check of the credential providers for images: a kubelet exits if one of them is not usable."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from nodeupgrade.api.encoding.yaml import read_one
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import CredentialProviders, Readiness
from nodeupgrade.kubelet import history

GATE = "KubeletCredentialProviders"
KIND = "CredentialProviderConfig"
FIELDS = frozenset({"apiVersion", "kind", "providers"})
OF_A_PROVIDER = frozenset(
    {"name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"}
)
REQUIRED = ("name", "matchImages", "defaultCacheDuration", "apiVersion")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.CREDENTIAL_PROVIDERS, history.CREDENTIAL_PROVIDERS_STRICT),
    covers=(Hazard.CREDENTIAL_PROVIDER_UNUSABLE,),
)
def credential_providers_are_usable(facts: Readiness) -> Iterator[Finding]:
    """The configuration of credential providers can be read, and each of their programs is there."""
    configured = facts.host.credential_providers
    used = facts.layout.gates.get(GATE, history.CREDENTIAL_PROVIDERS.applies_to(facts.target))
    if configured is not None and used:
        for problem in _problems(configured, strict=history.CREDENTIAL_PROVIDERS_STRICT.applies_to(facts.target)):
            detail = f"kubelet {facts.target} does not start with its credential providers: {problem}"
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _problems(configured: CredentialProviders, *, strict: bool) -> Iterator[str]:
    if not configured.files:
        yield "the directory that --image-credential-provider-config names has no configuration file; put it there"
    for path, data in configured.files.items():
        if data is None:
            yield f"there is no {path}; put it there"
            continue
        try:
            document = read_one(data)
        except (yaml.YAMLError, UnicodeError) as error:
            yield f"{path} cannot be read ({shorten(' '.join(str(error).split()), 120)}); correct it"
            continue
        yield from (f"{path}: {problem}; correct it" for problem in _in_document(document, strict=strict))
        for name in sorted(_names(document) - configured.executable):
            yield f"{path} names {name}, which is not a program in {configured.directory}; put it there"


def _in_document(document: Any, *, strict: bool) -> Iterator[str]:
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        yield f"it is no {KIND}"
        return
    providers = document.get("providers")
    if not isinstance(providers, list) or not providers or not all(isinstance(each, Mapping) for each in providers):
        yield "it has no list of providers"
        return
    for provider in providers:
        if missing := [name for name in REQUIRED if provider.get(name) in (None, "", [])]:
            yield f"provider {provider.get('name')} has no {', '.join(missing)}"
    if strict:
        strange = {*document} - FIELDS | {name for provider in providers for name in provider} - OF_A_PROVIDER
        if strange:
            named = ", ".join(sorted(map(str, strange)))
            yield f"it has fields that are unknown ({history.CREDENTIAL_PROVIDERS_STRICT.reference}): {named}"


def named_in(data: bytes | None) -> set[str]:
    """Return the names of the providers in a configuration file; none if it cannot be read."""
    try:
        return _names(read_one(data or b""))
    except (yaml.YAMLError, UnicodeError):
        return set()


def _names(document: Any) -> set[str]:
    providers = document.get("providers") if isinstance(document, Mapping) else None
    listed = providers if isinstance(providers, list) else []
    return {str(each["name"]) for each in listed if isinstance(each, Mapping) and each.get("name")}


CHECKS: tuple[Check[Readiness], ...] = (credential_providers_are_usable,)
