"""The program that evaluates a CEL expression: started for every evaluation, as a process of its own.

CEL is evaluated by native code, which cannot be interrupted, and an expression may take as long as whoever wrote it
likes. So it runs where it can be ended: limited in time and memory, without the operator's credentials in its
environment.

It reads a JSON object from standard input: ``expression``, ``seconds`` of processor time, and ``cases``, each with the
variables of one evaluation. It writes a JSON object: ``false``, the indexes of the cases of which the expression is not
true, or ``error``.
"""

import json
import resource
import sys

import cel

MEMORY_BYTES = 512 * 1024 * 1024
"""Address space, of which most is never used."""


def main() -> None:
    """Evaluate what standard input says; whatever happens, nothing else than an answer means that it holds."""
    asked = json.load(sys.stdin)
    seconds = int(asked["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    json.dump(judged(asked["expression"], asked["cases"]), sys.stdout)


def judged(expression: str, cases: list[dict[str, object]]) -> dict[str, object]:
    """Evaluate an expression for each case."""
    try:
        program = cel.compile(expression)
        results = [program.execute(case) for case in cases]
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds, and all mean the same
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    for result in results:
        if not isinstance(result, bool):
            return {"error": f"it comes to a value of type {type(result).__name__}, not to true or false"}
    return {"false": [index for index, result in enumerate(results) if result is False]}


if __name__ == "__main__":
    main()
