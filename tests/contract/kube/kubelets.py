"""What kubelets do to pods whose containers have ended, on a real API server."""

from collections.abc import Awaitable, Callable

from nodeupgrade.cluster.client.transport import Session


def vanishing(session: Session, namespace: str) -> Callable[[str], Awaitable[None]]:
    """Return what takes a pod away for good, at the API server of a session."""

    async def vanish(pod: str) -> None:
        url = f"{session.server}/api/v1/namespaces/{namespace}/pods/{pod}"
        async with session.http.delete(url, json={"gracePeriodSeconds": 0}) as answer:
            await answer.read()

    return vanish
