"""The login to an API server: that of a kubeconfig, or of the pod that this runs in."""

import ipaddress
import os
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import client as untyped_client
from kubernetes.aio import config as untyped_config

from nodeupgrade.cluster.kube_api import NoClusterError
from nodeupgrade.text import trimmed

_client: Any = untyped_client  # Any: upstream has no type hints here
_config: Any = untyped_config


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
    try:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            _config.load_incluster_config(client_configuration=configuration)
        else:
            _require_file(kubeconfig)
            await _config.load_kube_config(
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
            )
    except (_config.ConfigException, OSError, yaml.YAMLError) as error:
        raise NoClusterError(f"cannot use {kubeconfig or 'the default kubeconfig'} because {error}") from error
    # Old CA certificates lack extensions that Python 3.13 and later require; chain and name are still verified.
    configuration.disable_strict_ssl_verification = True
    configuration.retries = None  # whoever sends requests retries them
    # Else aiohttp would ask the environment at each request, and send passwords of ~/.netrc, as kubectl does not.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or _proxy_of_environment(configuration.host)
    client = _client.ApiClient(configuration)
    if impersonated is not None:
        client.set_default_header("Impersonate-User", impersonated)
    return client


def _require_file(kubeconfig: Path | None) -> None:
    """Raise FileNotFoundError if there is no kubeconfig; the library's own error would not help."""
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    if not any(Path(path).expanduser().exists() for path in paths):
        raise FileNotFoundError(f"no such file: {' or '.join(paths)}")


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
