"""A real Prometheus on loopback that scrapes itself: Debian's, unpacked into the cache, never installed."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.lab.paths import cache_root
from tests.contract.kube.apiserver import free_ports, start

READY_SECONDS = 300


def binary() -> Path | None:
    """The program; None if there is none and none can be had."""
    if (installed := shutil.which("prometheus")) is not None:
        return Path(installed)
    place = cache_root() / "prometheus"
    unpacked = place / "usr/bin/prometheus"
    if not unpacked.exists():
        _unpack(place)
    return unpacked if unpacked.exists() else None


def _unpack(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="prometheus-", dir=place.parent) as name:
        fetching = subprocess.run(
            ["apt-get", "download", "-qq", "prometheus"], cwd=name, capture_output=True, check=False, timeout=600
        )
        packages = list(Path(name).glob("prometheus_*.deb"))
        if fetching.returncode or not packages:
            return
        subprocess.run(["dpkg-deb", "-x", packages[0], Path(name) / "root"], check=True, timeout=600)
        (Path(name) / "root").rename(place)


@contextmanager
def running(program: Path) -> Iterator[str]:
    """Start it, wait until it has scraped itself, and stop it in the end; yields its URL."""
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-prometheus-") as name:
        directory, (port,) = Path(name), free_ports(1)
        scraping = {"job_name": "self", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        config = directory / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [scraping]}))
        argv = [
            os.fspath(program),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = start(argv, directory / "prometheus.log")
        try:
            _wait_until_ready(f"http://127.0.0.1:{port}", process, directory / "prometheus.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/api/v1/query?query=up==1", timeout=10) as answer:  # noqa: S310
                if json.load(answer)["data"]["result"]:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"Prometheus did not become ready:\n{log.read_text(errors='replace')[-2000:]}")
