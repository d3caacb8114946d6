"""On 80 columns, the name of a node is never split over two lines, however long nodes are called."""

import functools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.json import Json
from tests.golden.cli.cluster import FILES, WORLD, Cluster, objects
from tests.golden.test_widths import SCREENS

WIDTH = 80
LONGEST = 60
"""Characters of a name; the longest ones of cloud providers have some fifty."""

NAMED = re.compile(r"\b(?:web-[a-d]|db|gpu|cache)-\d\b")
BEGINNING = "ip-"
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True, alphabet="abz019-")
DOMAINS = st.lists(LABEL, max_size=6).map(".".join).map(lambda domain: domain[: LONGEST - 14].strip("-."))


@functools.cache
def names() -> frozenset[str]:
    return frozenset(found for file in WORLD for body in objects(file) for found in NAMED.findall(json.dumps(body)))


def cluster(domain: str) -> Cluster:
    """Return the cluster of the goldens, with nodes that have longer names."""
    made = Cluster()
    for body in (body for file in WORLD for body in objects(file)):
        renamed: Json = json.loads(NAMED.sub(lambda found: longer(found[0], domain), json.dumps(body, default=str)))
        made.add(renamed)
    return made


def longer(name: str, domain: str) -> str:
    return f"{BEGINNING}{name}.{domain}" if domain else f"{BEGINNING}{name}"


@given(DOMAINS)
@settings(max_examples=25, deadline=None)
def test_no_name_is_split(domain: str) -> None:
    whole = {longer(name, domain) for name in names()}
    assert max(map(len, whole)) <= LONGEST
    world = cluster(domain)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FILES)
        for screen in SCREENS:
            command = NAMED.sub(lambda found: longer(found[0], domain), f"nodeupgrade {screen}")
            printed = world.run(command, width=str(WIDTH)).partition("\n")[2]
            assert [line for line in printed.splitlines() if len(line) > WIDTH] == []
            words = re.findall(rf"(?<![\w.-]){BEGINNING}[\w.-]*", printed)
            assert [word for word in words if word.rstrip(".") not in whole] == [], command


def test_control_a_narrower_screen_splits_them() -> None:
    domain = "eu-central-1.compute.internal"
    printed = cluster(domain).run("nodeupgrade status", width="30")
    assert longer("web-a-3", domain) not in printed
