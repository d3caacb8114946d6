from textwrap import dedent

import pytest

from nodeupgrade.cluster.descheduler_policy import CORDON, LARGEST, PLUGIN, evicts_from_cordoned

CHART = """
    apiVersion: descheduler/v1alpha2
    kind: DeschedulerPolicy
    profiles:
      - name: default
        pluginConfig:
          - name: DefaultEvictor
            args: {ignorePvcPods: true}
          - name: RemovePodsViolatingNodeTaints
            args: ARGS
        plugins:
          balance: {enabled: [RemoveDuplicates]}
          deschedule: {enabled: [RemovePodsViolatingNodeAffinity, PLUGIN]}
"""
OLD = """
    apiVersion: descheduler/v1alpha1
    kind: DeschedulerPolicy
    strategies: {RemovePodsViolatingNodeTaints: STRATEGY}
"""


def profile(arguments: str, plugin: str = PLUGIN) -> str:
    return dedent(CHART).replace("ARGS", arguments).replace("PLUGIN", plugin)


def strategy(text: str) -> str:
    return dedent(OLD).replace("STRATEGY", text)


@pytest.mark.parametrize(
    ("text", "evicts"),
    [
        (profile("{}"), True),
        (profile("null"), True),
        (profile("{excludedTaints: [dedicated=special]}"), True),
        (profile(f"{{excludedTaints: [{CORDON}]}}"), False),
        (profile("{includedTaints: [decommissioned]}"), False),
        (profile(f"{{includedTaints: [{CORDON}]}}"), True),
        (profile("{}", "PodLifeTime"), False),
        (strategy("{enabled: true}"), True),
        (strategy("{enabled: false}"), False),
        (strategy("{enabled: true, params: {includePreferNoSchedule: true}}"), True),
        (strategy(f"{{enabled: true, params: {{excludedTaints: [{CORDON}]}}}}"), False),
        ("kind: DeschedulerPolicy", False),
    ],
)
def test_a_policy_evicts_unless_it_excludes_the_taint_of_a_cordon(text: str, evicts: bool) -> None:
    assert evicts_from_cordoned({"policy.yaml": text}) is evicts


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"policy.yaml": "{"},
        {"policy.yaml": "kind: Something"},
        {"policy.yaml": 7},
        {"policy.yaml": "#" * (LARGEST + 1)},
        {"policy.yaml": "{kind: DeschedulerPolicy, profiles: 3}"},
        {"policy.yaml": "{kind: DeschedulerPolicy, profiles: [1]}"},
        {"policy.yaml": "{kind: DeschedulerPolicy, strategies: [RemoveDuplicates]}"},
    ],
)
def test_what_is_no_policy_is_not_known(data: object) -> None:
    assert evicts_from_cordoned(data) is None
