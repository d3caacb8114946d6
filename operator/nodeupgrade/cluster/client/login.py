"""The login to an API server: that of a kubeconfig, or of the pod that this runs in."""

import contextlib
import ipaddress
import logging
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import client as untyped_client
from kubernetes.aio import config as untyped_config

from nodeupgrade.api.yaml import read_one
from nodeupgrade.cluster.kube_api import NoClusterError, NoCredentialsError
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
        kubeconfig: File to use. None means the pod's service account in a pod, else the user's default kubeconfig.
        context: Context within the kubeconfig; None means its current context.
        impersonated: User to act as, if the login may impersonate it; None means the login's own.

    Raises:
        NoClusterError: There is no usable kubeconfig.
    """
    configuration = _client.Configuration()
    name = kubeconfig or "the default kubeconfig"
    try:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
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
    _require_file(kubeconfig)
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
    handler = _Collecting(said)
    logger = logging.getLogger(_config.kube_config.__name__)
    logger.addHandler(handler)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield said
    finally:
        logger.propagate = propagates
        logger.removeHandler(handler)


class _Collecting(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


def _is_address(text: str) -> bool:
    try:
        url = urllib.parse.urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:  # of a port, or of brackets
        return False


def _require_file(kubeconfig: Path | None) -> None:
    """Raise FileNotFoundError if there is no kubeconfig; the library's own error would not help."""
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    existing = [found for path in paths if path and (found := Path(path).expanduser()).exists()]
    if not existing:
        raise FileNotFoundError(f"no such file: {' or '.join(paths)}")
    for path in (each for each in existing if each.is_file()):  # what is no file can be read once only
        try:
            document = read_one(path.read_bytes())
        except yaml.MarkedYAMLError as error:  # its text would show what stands there
            line = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
            raise _config.ConfigException(f"{path} is not YAML{line}: {error.problem}") from None
        if not isinstance(document, dict):
            raise _config.ConfigException(f"{path} is {'empty' if document is None else 'not a kubeconfig'}")


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
