"""The agent pod's entry point: ``python -m nodeupgrade.node.agent``."""

import asyncio
import os
import sys

from nodeupgrade.cluster.connect import connect_pod
from nodeupgrade.logs import log_to_stderr
from nodeupgrade.node.agent.serve import Agent, ArtifactNeededError
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.task_reporter import TaskRefusedError
from nodeupgrade.node.artifacts.mounted import NodeArtifacts
from nodeupgrade.node.failpoints.interruption import plan_failpoint
from nodeupgrade.node.own_directories import bundles_on
from nodeupgrade.node.wiring import bundles_from_pod, host_from_pod, runs_from_pod


async def _main() -> None:
    settings = AgentSettings.from_environment(os.environ)
    host = host_from_pod(settings.host)
    async with connect_pod() as kube:
        await Agent(
            settings,
            kube,
            host,
            runs=runs_from_pod(settings.host),
            bundles=bundles_from_pod(settings.bundle, settings.host, *bundles_on(host.files)),
            artifacts=NodeArtifacts(settings.host),
            failpoint=plan_failpoint(os.environ, settings.host),
        ).serve()


if __name__ == "__main__":
    log_to_stderr()
    try:
        asyncio.run(_main())
    except (ArtifactNeededError, TaskRefusedError) as error:
        sys.exit(f"error: {error}")
    except KeyError as error:
        sys.exit(f"error: environment variable {error} is not set; the agent is started by the operator, in a pod")
