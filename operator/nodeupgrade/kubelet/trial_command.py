"""A start of a kubelet that ends right after it has accepted or rejected its flags, feature gates and configuration.

A kubelet parses and validates all of these before it does anything else; then it looks for its certificates (observed
with 1.15 to 1.33; read in the source up to 1.37). The dry run sets their place to a path that cannot exist, so a
kubelet that complains about it has accepted everything else.
"""

import re

from nodeupgrade.text import lines, parse_json, trimmed

NOWHERE = "/nonexistent"
"""A path that does not exist where a dry run happens, and cannot be created."""
OVERRIDES = (
    f"--cert-dir={NOWHERE}/pki",
    f"--client-ca-file={NOWHERE}/ca.crt",
    f"--kubeconfig={NOWHERE}/kubeconfig",
    "--bootstrap-kubeconfig=",
    f"--root-dir={NOWHERE}/root",
)
"""Flags that end a dry run: without its own certificate it makes one, else it reads the CA's, else its kubeconfig."""

_ARRIVED = re.compile(rf"{NOWHERE}\S*: (?:no such file or directory|read-only file system)", re.ASCII)
_FATAL = re.compile(r"F[0-9]{4} .*?\] (.*)")
_FAILED = re.compile(r'"command failed" err="(.*)"$')
_FAILED_AT_LENGTH = re.compile(r'"command failed" err=<\n\t(.*)')
_UNKNOWN = re.compile(r'unknown field:? \\*"?([^\s"\\,]+)', re.ASCII)


def dry_run_arguments(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments for a dry run of a kubelet that is to be started with these; the last of a kind counts."""
    return (*words, *OVERRIDES)


def accepted(output: str) -> bool:
    """Report whether a dry run got as far as it can."""
    return _ARRIVED.search(output) is not None


def objection(output: str) -> str:
    """Return the error of a kubelet that did not get that far, in one line."""
    if found := _FAILED_AT_LENGTH.search(output):
        return trimmed(found[1])
    written = [line for line in map(trimmed, lines(output)) if line]
    for line in written:
        if found := _FATAL.match(line):
            return found[1]
        if found := _FAILED.search(line):
            return found[1].replace('\\"', '"')
        if line.startswith("panic: "):
            return line
        if line.startswith("{") and (said := _logged(line)):
            return said
    return written[-1] if written else "no output"


def unknown_fields(output: str) -> tuple[str, ...]:
    """Return the fields of the configuration that the kubelet reports as unknown and ignores."""
    return tuple(dict.fromkeys(_UNKNOWN.findall(output)))


def _logged(line: str) -> str:
    """Return the error in a line that is logged as JSON; empty if it has none."""
    try:
        entry = parse_json(line)
    except ValueError:
        return ""
    return str(entry.get("err") or "") if isinstance(entry, dict) and entry.get("msg") == "command failed" else ""
