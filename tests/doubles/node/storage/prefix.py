"""What two contents have in common."""


def common_length(before: bytes, after: bytes) -> int:
    """Return how many bytes two contents have in common from their beginning."""
    least, most = 0, min(len(before), len(after))
    while least < most:
        middle = (least + most + 1) // 2
        if before[:middle] == after[:middle]:
            least = middle
        else:
            most = middle - 1
    return least
