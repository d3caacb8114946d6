"""How fast hashes are computed on one core, and whether the command line's memory stays flat on a large cluster.

`make bench` runs it; it fails when a target is missed.
"""
# ruff: noqa: INP001 - a script, not part of a package

import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nodeupgrade.kubelethash import hash_container

GOLDENS = Path(__file__).parents[1] / "tests" / "golden" / "generated-pods.jsonl.gz"
# Containers per second: (era, a kubelet of it, at least).
TARGETS = [
    ("A", "1.5", 600),
    ("B", "1.8", 600),
    ("B", "1.15", 600),
    ("C", "1.16", 1500),
    ("C", "1.30", 1500),
    ("D", "1.33", 1500),
]
SMALL, LARGE = 1_000, 10_000
MEMORY_GROWTH_MIB = 8
# getrusage() would count the memory of the parent, from before exec(), as the child's own.
REPORT_OWN_PEAK = """
import sys
from nodeupgrade.cli.main import main
main(standalone_mode=False)
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
print(peak, file=sys.stderr)
"""


def golden_containers() -> list[dict[str, Any]]:
    """Every container of the golden pods."""
    with gzip.open(GOLDENS, "rt", encoding="utf-8") as lines:
        specs = [json.loads(line)["spec"] for line in lines]
    return [each for spec in specs for each in [*spec.get("initContainers", []), *spec["containers"]]]


def rate(containers: list[dict[str, Any]], kubelet: str) -> float:
    """The best of three passes, in containers per second of CPU time."""
    passes = []
    for _ in range(3):
        started = time.process_time()
        for container in containers:
            hash_container(container, kubelet)
        passes.append(time.process_time() - started)
    return len(containers) / min(passes)


def peak_memory(pods: int) -> float:
    """Peak resident memory, in MiB, of `nodeupgrade hash` over a List of so many golden pods."""
    with gzip.open(GOLDENS, "rt", encoding="utf-8") as lines:
        golden = [line.strip().encode() for line in lines]
    with tempfile.TemporaryFile() as listed:
        listed.write(b'{"apiVersion": "v1", "kind": "List", "items": [')
        for number in range(pods):
            listed.write((b"," if number else b"") + golden[number % len(golden)])
        listed.write(b"]}")
        listed.seek(0)
        arguments = ["hash", "--kubelet-version", "1.30", "--pods", "-", "--output", "json"]
        ran = subprocess.run(
            [sys.executable, "-c", REPORT_OWN_PEAK, *arguments],
            stdin=listed,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=600,
            check=True,
        )
    return int(ran.stderr) / 1024


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    missed = False
    containers = golden_containers()
    for era, kubelet, target in TARGETS:
        measured = rate(containers, kubelet)
        missed |= measured < target
        print(f"era {era}  kubelet {kubelet:<5}  {measured:>9,.0f} containers/s  (at least {target:,})")
    small, large = peak_memory(SMALL), peak_memory(LARGE)
    missed |= large - small > MEMORY_GROWTH_MIB
    print(f"peak memory  {SMALL:,} pods {small:.1f} MiB  {LARGE:,} pods {large:.1f} MiB", end="  ")
    print(f"(at most {MEMORY_GROWTH_MIB} MiB more)")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
