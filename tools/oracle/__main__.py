"""Compare kubelethash with what a Kubernetes release itself computes: `make oracle VERSION=1.38.0`."""

import gzip
import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from random import Random

from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.progress import Lines
from nodeupgrade.kubelethash import NEWEST_MINOR, Era, KubeletVersion
from tools.oracle import asking
from tools.oracle.building import oracle
from tools.oracle.comparing import (
    GATE,
    GATED_MINORS,
    Comparison,
    compare_served,
    compare_static,
    era_name,
    known_as,
    missing_rows,
)
from tools.oracle.made_pods import manifest

_SHOWN = 5
_GOLDEN_SEED, _GOLDEN_PODS = 13, 150


def main() -> int:
    """Build the oracle, compare, and report differences."""
    parser = ArgumentParser(prog="python -m tools.oracle", description=__doc__)
    parser.add_argument("version", nargs="+", type=Version.parse, help="exact Kubernetes versions, such as 1.38.0")
    parser.add_argument("--pods", type=int, default=2000, help="how many pods of each kind (2000)")
    parser.add_argument("--seed", type=int, default=1, help="for the pods (1)")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="write golden values of static pods instead")
    options = parser.parse_args()
    try:
        if options.golden:
            _write_golden(options.golden, options.version)
            return 0
        return max(_judge(version, options.pods, options.seed) for version in options.version)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _judge(version: Version, number: int, seed: int) -> int:
    program, kubelet = oracle(version, Lines()), KubeletVersion.parse(str(version))
    hashed = era_name(kubelet) is not Era.D
    rows = sorted(missing_rows(kubelet, asking.container_types(program)))
    print(f"\nKubernetes {version}, by the rules of 1.{known_as(kubelet).minor} (era {era_name(kubelet)})")
    what = "fields of a container that the table lacks" if hashed else "fields newer than 1.30, which are not hashed"
    print(f"  {what}: {len(rows)}")
    for row in rows:
        print(f"    {row}")
    compared = (*compare_served(kubelet, program, number, seed), *compare_static(kubelet, program, number, seed))
    for each in compared:
        _print(each)
    differing = any(each.differing or not each.compared for each in compared)
    wrong = differing or (hashed and bool(rows))
    print(f"  {_verdict(kubelet, wrong=wrong)}")
    return int(wrong)


def _print(each: Comparison) -> None:
    aside = [
        f"{each.refused} refused here" if each.refused else "",
        f"{each.unread} pods not accepted" if each.unread else "",
    ]
    rest = "".join(f", {part}" for part in aside if part)
    print(f"  {each.question}: {each.compared} compared, {len(each.differing)} differ{rest}")
    for difference in each.differing[:_SHOWN]:
        print(f"    {difference}")


def _verdict(kubelet: KubeletVersion, *, wrong: bool) -> str:
    if wrong:
        return "NOT the same: see docs/hash-eras.md, A new minor."
    if kubelet.minor > NEWEST_MINOR:
        return (
            f"The same: raise NEWEST_MINOR to {kubelet.minor} once docs/hash-eras.md, A new minor, has been followed."
        )
    return "The same."


def _write_golden(file: Path, versions: list[Version]) -> None:
    """Write what each release computes for the same manifests."""
    random = Random(_GOLDEN_SEED)
    made = {f"p{n}": manifest(random, n) for n in range(_GOLDEN_PODS)}
    lines = {name: {"manifest": pod, "hash": {}, "gated": {}, "qos": {}} for name, pod in made.items()}
    for version in versions:
        program, minor = oracle(version, Lines()), f"1.{version.minor}"
        for name, answer in asking.static(program, made.values()).items():
            lines[name]["hash"][minor] = answer.hashes
            lines[name]["qos"][minor] = answer.qos
        if version.minor in GATED_MINORS:
            for name, answer in asking.static(program, made.values(), f"{GATE}=true").items():
                lines[name]["gated"][minor] = answer.hashes
    with gzip.GzipFile(file, "wb", mtime=0) as out:
        out.write("".join(f"{json.dumps(line)}\n" for line in lines.values()).encode())


if __name__ == "__main__":
    sys.exit(main())
