"""The login to an API server: that of a kubeconfig, or of the pod that this runs in."""

import contextlib
import ipaddress
import logging
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import client as untyped_client
from kubernetes.aio import config as untyped_config

from nodeupgrade.cluster.kube_api import NoClusterError, NoCredentialsError
from nodeupgrade.cluster.kubeconfig import documents
from nodeupgrade.text import one_line, trimmed

_client: Any = untyped_client  # Any: upstream has no type hints here
_config: Any = untyped_config

_NOT_WELL_FORMED = (TypeError, AttributeError, LookupError, AssertionError, RecursionError)
"""What the library raises of a kubeconfig that has another shape than it takes for granted."""

_OBJECT = re.compile(r"/\{.*\}", re.DOTALL)
"""How the library names an object of a kubeconfig: by all that is in it, credentials included."""


async def log_in(kubeconfig: Path | None, context: str | None, impersonated: str | None) -> Any:
    """Return the official client, which authenticates and encrypts; nothing is sent yet.

    Args:
        kubeconfig: File to use. None means the user's default kubeconfig, or in a pod, without a context, its service
            account.
        context: Context within the kubeconfig; None means its current context.
        impersonated: User to act as, if the login may impersonate it; None means the login's own.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    configuration = _client.Configuration()
    name = kubeconfig or "the default kubeconfig"
    try:
        if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            _config.load_incluster_config(client_configuration=configuration)
        else:
            await _load_kubeconfig(kubeconfig, context, configuration)
    except (_config.ConfigException, OSError, ValueError, yaml.YAMLError) as error:
        raise NoClusterError(f"cannot use {name} because {_OBJECT.sub('', str(error))}") from error
    except _NOT_WELL_FORMED as error:
        problem = "something in it is missing or of a wrong type; compare it with: kubectl config view --minify"
        raise NoClusterError(f"cannot use {name} because {problem}") from error
    if not _is_address(configuration.host):
        problem = f"its server {configuration.host!r} is not an address such as https://api.example.com:6443"
        raise NoClusterError(f"cannot use {name} because {problem}")
    # Old CA certificates lack extensions that Python 3.13 and later require; chain and name are still verified.
    configuration.disable_strict_ssl_verification = True
    configuration.retries = None  # whoever sends requests retries them
    # Else aiohttp would ask the environment at each request, and send passwords of ~/.netrc, as kubectl does not.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or _proxy_of_environment(configuration.host)
    if configuration.proxy and not _is_address(configuration.proxy):
        problem = "its proxy is not an address such as http://proxy.example.com:3128"  # it may hold a password
        raise NoClusterError(f"cannot use {name} because {problem}")
    try:
        client = _client.ApiClient(configuration)
    except OSError as error:
        problem = "its certificate authority, client certificate or client key is not one in PEM"
        raise NoClusterError(f"cannot use {name} because {problem} ({error})") from error
    if impersonated is not None:
        client.set_default_header("Impersonate-User", impersonated)
    return client


async def _load_kubeconfig(kubeconfig: Path | None, context: str | None, configuration: Any) -> None:
    """Load a kubeconfig, and get the credentials that it names.

    Raises:
        NoCredentialsError: They cannot be had. The library then goes on without any.
    """
    documents(kubeconfig)  # the library's own errors about files would not help, or show what stands in them
    with _errors_of_library() as said:
        loader = await _config.load_kube_config(
            config_file=str(kubeconfig) if kubeconfig else None, context=context, client_configuration=configuration
        )
    name = kubeconfig or "the default kubeconfig"
    if said:
        cause = one_line(_OBJECT.sub("", said[-1].removeprefix("exec: ").replace(". b'", ": '")))
        problem = f"the program that its user takes credentials from fails ({cause})"
        raise NoCredentialsError(f"cannot use {name} because {problem}")
    if loader.provider is not None and loader.provider not in {"gcp", "oidc"}:
        problem = f"there is no auth-provider {one_line(str(loader.provider))} any more; its user needs exec instead"
        raise NoCredentialsError(f"cannot use {name} because {problem}")


@contextlib.contextmanager
def _errors_of_library() -> Iterator[list[str]]:
    """Collect what the library logs about a credential program instead of failing."""
    said: list[str] = []
    token = _said.set(said)
    try:
        yield said
    finally:
        _said.reset(token)


_said: ContextVar[list[str] | None] = ContextVar("said", default=None)
"""What the library has said of the login of this task: several log in at once."""


def _collect(record: logging.LogRecord) -> bool:
    if (said := _said.get()) is None:
        return True
    if record.levelno >= logging.ERROR:
        said.append(record.getMessage())
    return False


logging.getLogger(_config.kube_config.__name__).addFilter(_collect)


def _is_address(text: str) -> bool:
    try:
        url = urllib.parse.urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:  # of a port, or of brackets
        return False


def _proxy_of_environment(server: str) -> str | None:
    """Return the proxy that HTTPS_PROXY and its like name for a server, unless NO_PROXY exempts it.

    NO_PROXY may name networks too, as it may for clients written in Go: an API server is often known by its address.
    """
    url, proxies = urllib.parse.urlsplit(server), urllib.request.getproxies()
    if url.hostname is None or urllib.request.proxy_bypass(url.hostname):
        return None
    exempt = any(_is_in(url.hostname, trimmed(entry)) for entry in proxies.get("no", "").split(","))
    return None if exempt else proxies.get(url.scheme)


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:  # one of them is a name
        return False
