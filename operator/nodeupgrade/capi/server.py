"""Serves the hooks by HTTPS; a certificate that is exchanged on disk is taken for the next connection."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from aiohttp import web

from nodeupgrade.api.json import Json
from nodeupgrade.capi import answers
from nodeupgrade.capi.extension import Extension
from nodeupgrade.capi.requests import GROUP_VERSION, Hook

_log = structlog.get_logger(__name__)

MOST_BYTES = 8 * 1024 * 1024
"""Longest request: six objects, of which none is longer than etcd stores."""
RELOAD_SECONDS = 10.0

_HOOKS = {hook.value.lower(): hook for hook in Hook}


class Certificate:
    """A certificate and its key, as a Secret of type ``kubernetes.io/tls`` is mounted."""

    def __init__(self, directory: Path) -> None:
        self._files = (directory / "tls.crt", directory / "tls.key")
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._loaded = self._read()
        self.context.load_cert_chain(*self._files)

    def reload(self) -> None:
        """Take what is there now, if it has changed; keep what was loaded if that cannot be used."""
        try:
            if (there := self._read()) == self._loaded:
                return
            # In vain where only one of them is new yet: the context in use would be left with neither key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            _log.warning("certificate_reload_failed", error=str(error))
            return
        self._loaded = there
        _log.info("certificate_reloaded")

    def _read(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in self._files)


def application(extension: Extension) -> web.Application:
    """Return the paths that Cluster API calls, and one for probes."""

    async def serve(request: web.Request) -> web.Response:
        hook = _HOOKS.get(request.match_info["hook"])
        if hook is None or (hook is Hook.DISCOVERY) == ("handler" in request.match_info):
            raise web.HTTPNotFound
        answer = await _answer(extension, hook, await request.read())
        told = {name: answer[name] for name in ("status", "retryAfterSeconds", "message") if name in answer}
        _log.info("hook_answered", hook=hook.value, **told)
        return web.json_response(answer)

    async def healthy(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=MOST_BYTES)
    root = f"/{GROUP_VERSION}/{{hook}}"
    app.add_routes([web.post(root, serve), web.post(f"{root}/{{handler}}", serve), web.get("/healthz", healthy)])
    return app


async def _answer(extension: Extension, hook: Hook, body: bytes) -> Json:
    try:
        return await extension.answer(hook, body)
    except Exception as error:  # noqa: BLE001 - whatever it is, Cluster API needs an answer that decides nothing
        _log.exception("hook_failed", hook=hook.value)
        return answers.failure(hook, f"cannot answer because of {type(error).__name__}; see the extension's log")


@asynccontextmanager
async def served(extension: Extension, certificate: Certificate, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the context ends; yields the port."""
    runner = web.AppRunner(application(extension), access_log=None)
    await runner.setup()
    reloading = asyncio.create_task(_reload_for_ever(certificate))
    try:
        await web.TCPSite(runner, host, port, ssl_context=certificate.context).start()
        yield int(runner.addresses[0][1])
    finally:
        reloading.cancel()
        await runner.cleanup()


async def _reload_for_ever(certificate: Certificate) -> None:
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        certificate.reload()
