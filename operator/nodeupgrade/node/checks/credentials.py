"""Checks of credentials: can the kubelet speak to the API server, and get the images of its containers?"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import yaml

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.yaml import read_first
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.certificate_validity import validity
from nodeupgrade.kubelet.feature_gates import is_on
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.startup import CredentialProviders, Identity, Readiness
from nodeupgrade.text import one_line

FIELDS = frozenset({"apiVersion", "kind", "providers"})
OF_A_PROVIDER = frozenset({"name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env"})
TOKENS, CACHE_TYPE = "tokenAttributes", "cacheType"
TOKENS_GATE = "KubeletServiceAccountTokenForCredentialProviders"
REQUIRED = ("name", "matchImages", "defaultCacheDuration", "apiVersion")


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CREDENTIAL_PROVIDER_UNUSABLE,
    history.CREDENTIAL_PROVIDERS,
    history.CREDENTIAL_PROVIDERS_STRICT,
    history.CREDENTIAL_PROVIDERS_TOKENS,
    history.CREDENTIAL_PROVIDERS_TOKENS_BY_DEFAULT,
)
def credential_providers_are_usable(facts: Readiness) -> Iterator[Found]:
    """The configuration of credential providers can be read, and each of their programs is there."""
    configured = facts.host.credential_providers
    used = facts.layout.gates.get("KubeletCredentialProviders", history.CREDENTIAL_PROVIDERS.applies_to(facts.target))
    if configured is not None and used:
        for problem in _problems(configured, facts):
            yield f"kubelet {facts.target} does not start with its credential providers: {problem}"


def _problems(configured: CredentialProviders, facts: Readiness) -> Iterator[str]:
    if not configured.files:
        yield "the directory that --image-credential-provider-config names has no configuration file; put it there"
    for path, data in configured.files.items():
        if data is None:
            yield f"there is no {path}; put it there"
            continue
        try:
            document = read_first(data)
        except (yaml.YAMLError, UnicodeError) as error:
            yield f"{path} cannot be read ({shorten(one_line(str(error)), 120)}); correct it"
            continue
        yield from (f"{path}: {problem}; correct it" for problem in _in_document(document, facts))
        for name in sorted(_names(document) - configured.executable):
            yield f"{path} names {name}, which is not a program in {configured.directory}; put it there"


def _in_document(document: Any, facts: Readiness) -> Iterator[str]:
    if not isinstance(document, Mapping) or document.get("kind") != "CredentialProviderConfig":
        yield "it is not a CredentialProviderConfig"
        return
    providers = document.get("providers")
    if not isinstance(providers, list) or not providers or not all(isinstance(each, Mapping) for each in providers):
        yield "it has no list of providers"
        return
    for provider in providers:
        if missing := [name for name in REQUIRED if provider.get(name) in (None, "", [])]:
            yield f"provider {provider.get('name')} has no {', '.join(missing)}"
        if provider.get(TOKENS) is not None and history.CREDENTIAL_PROVIDERS_TOKENS.applies_to(facts.target):
            problems = _in_tokens(provider[TOKENS], facts)
            yield from (f"provider {provider.get('name')} has {TOKENS}{problem}" for problem in problems)
    if history.CREDENTIAL_PROVIDERS_STRICT.applies_to(facts.target):
        known = OF_A_PROVIDER | ({TOKENS} if history.CREDENTIAL_PROVIDERS_TOKENS.applies_to(facts.target) else set())
        strange = {*document} - FIELDS | {name for provider in providers for name in provider} - known
        if strange:
            named = ", ".join(sorted(map(str, strange)))
            yield f"it has fields that are unknown ({history.CREDENTIAL_PROVIDERS_STRICT.reference}): {named}"


def _in_tokens(attributes: object, facts: Readiness) -> Iterator[str]:
    """Yield why a kubelet that knows them refuses the attributes of tokens that a provider is to get."""
    by_default = history.CREDENTIAL_PROVIDERS_TOKENS_BY_DEFAULT
    stable = by_default.applies_to(facts.target)
    if not is_on(facts.layout.gates, TOKENS_GATE, by_default=stable):
        yield f", which needs the feature gate {TOKENS_GATE}"
    given = attributes if isinstance(attributes, Mapping) else {}
    if stable and not given.get(CACHE_TYPE):
        yield f" without {CACHE_TYPE}, which kubelets from {by_default.since} on need"
    elif not stable and CACHE_TYPE in given:
        yield f" with {CACHE_TYPE}, which only kubelets from {by_default.since} on know"


def named_in(data: bytes | None) -> set[str]:
    """Return the names of the providers in a configuration file; none if it cannot be read."""
    try:
        return _names(read_first(data or b""))
    except (yaml.YAMLError, UnicodeError):
        return set()


def _names(document: Any) -> set[str]:
    providers = document.get("providers") if isinstance(document, Mapping) else None
    listed = providers if isinstance(providers, list) else []
    return {str(each["name"]) for each in listed if isinstance(each, Mapping) and each.get("name")}


LEAST = timedelta(hours=1)
SHARE = 20
"""Of a short life, this part is enough: kubelets renew certificates when a tenth of it is left."""
UNTIL_STOPPED = timedelta(minutes=2)
"""From this look until the kubelet is stopped."""


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.CERTIFICATE_UNUSABLE)
def certificate_is_valid(facts: Readiness) -> Iterator[Found]:
    """The kubelet's kubeconfig is there, and its client certificate, if it has one, is valid for another hour.

    It is never let expire while there is no kubelet: then the old one would not start either, the node's
    Lease could not be renewed, and its pods would be evicted.
    """
    identity = facts.host.identity
    if identity is not None and (problem := identity.problem or _problem(identity, facts.down_budget)):
        yield f"a kubelet that starts could not speak to the API server: {problem}; renew the kubelet's credentials"


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.CERTIFICATE_UNUSABLE)
def named_certificates_are_there(facts: Readiness) -> Iterator[Found]:
    """The certificates and keys that the kubelet's settings name are there, without which no kubelet starts."""
    for (setting, path), usable in facts.host.certificates.items():
        if not usable:
            yield (
                f"no kubelet starts again, since {path}, which {setting} names, is not there or not what it should be; "
                "put it there"
            )


def _problem(identity: Identity, down_budget: timedelta) -> str:
    """Return what is wrong with the certificates; empty if there is none, or one of them is good."""
    problems: list[str] = []
    for path, data in identity.certificates.items():
        try:
            first, last = validity(data)
        except ValueError as error:
            problems.append(f"{path}: {error}")
            continue
        wanted = max(min(LEAST, (last - first) / SHARE), 2 * down_budget + UNTIL_STOPPED)
        if first > identity.now:
            problems.append(f"the certificate in {path} is not valid before {first:%Y-%m-%dT%H:%M:%SZ}")
        elif last - identity.now < wanted:
            problems.append(f"the certificate in {path} is valid only until {last:%Y-%m-%dT%H:%M:%SZ}")
        else:
            return ""
    return ", and ".join(problems)


PULLS_GATE = "KubeletEnsureSecretPulledImages"
PULLS_POLICY = "imagePullCredentialsVerificationPolicy"
VERIFYING = frozenset({"AlwaysVerify", "NeverVerifyAllowlistedImages"})
"""Policies that concern images which an older kubelet pulled; by default those are never verified."""


@check(
    Reason.KUBELET_DEFAULT_CHANGES, Hazard.IMAGE_PULLS_VERIFIED, Hazard.DEFAULT_CHANGES, history.IMAGE_PULLS_VERIFIED
)
def pulled_images_stay_usable(facts: Readiness) -> Iterator[Found]:
    """The new kubelet does not begin to verify images that the old one pulled without a record of who may use them."""
    policy = str(facts.layout.settings.document.get(PULLS_POLICY))
    if policy in VERIFYING and _verifies(facts, facts.target) and not _verifies(facts, facts.current):
        yield (
            f"kubelet {facts.target} verifies pulled images by {policy} ({history.IMAGE_PULLS_VERIFIED.reference}) and "
            "has no record of those on the node: a container that is restarted needs its registry and credentials; set "
            f"{PULLS_POLICY}: NeverVerifyPreloadedImages, or the gate {PULLS_GATE} to false"
        )


def _verifies(facts: Readiness, kubelet: KubeletVersion | None) -> bool:
    by_default = kubelet is not None and history.IMAGE_PULLS_VERIFIED.applies_to(kubelet)
    return facts.layout.gates.get(PULLS_GATE, by_default) if kubelet == facts.target else by_default


def _needs_guard(facts: NodeFacts) -> bool:
    return facts.spec.verify.readiness_guard is GuardPolicy.REQUIRE and facts.spec.guard.wanted


_LET_IT_PRINT = "make sure that the program writes no files and that only root may write to it"


@check(
    Reason.READINESS_GUARD_UNAVAILABLE,
    acceptable=False,
    remedy=f"{_LET_IT_PRINT}, or set verify.readinessGuard: Auto",
)
def required_guard_can_be_confirmed(facts: NodeFacts) -> Iterator[Found]:
    """Where the readiness guard is required, the kubelet's credentials can be used to confirm that it is in force."""
    if _needs_guard(facts) and (why := facts.unusable_credentials):
        yield f"the readiness guard cannot be confirmed: {why}"


@check(
    Reason.READINESS_GUARD_UNAVAILABLE,
    Hazard.ENDPOINTS_LOST,
    acceptable=False,
    warns=True,
    remedy=f"{_LET_IT_PRINT}, or expect that pods are reported unready for a moment",
)
def credentials_can_be_used(facts: NodeFacts) -> Iterator[Found]:
    """A program that prints the kubelet's credentials does so where it may change no file of the node.

    They confirm the readiness guard, renew the node's Lease while no kubelet runs, and read claims of volumes.
    """
    if (why := facts.unusable_credentials) and not _needs_guard(facts):
        yield (
            f"{why}; so the readiness guard counts as not in force, the node's Lease is not renewed while no kubelet "
            "runs, and claims of volumes cannot be read"
        )
