"""Say of something that was found whose pods it is about, and what found it."""

from collections.abc import Iterator, Sequence

from nodeupgrade.api.task.status import PodOwner


def about(pods: int, owners: Sequence[PodOwner], check: str, *, accepted: bool) -> Iterator[str]:
    """Yield a line for the pods and one for the check, as far as they are known."""
    if owners:
        named = sum(owner.pods for owner in owners)
        more = f" and {pods - named} more" if pods > named else ""
        whose = (f"{owner.pods} of {owner.name}" if owner.pods > 1 else owner.name for owner in owners)
        yield f"pods: {', '.join(whose)}{more}"
    if check:
        yield f"{'accepted in spite of' if accepted else 'found by'} {check}"
