"""The program that evaluates a CEL expression: started for every evaluation, as a process of its own.

CEL is evaluated by native code, which cannot be interrupted, and an expression may take as long as whoever wrote it
likes. So it runs where it can be ended: limited in time and memory, after everything else that wants the processor,
without the operator's credentials in its environment. The limits are the same for everybody, whatever a check asks for.

It reads a JSON object from standard input: ``expression``, and ``cases``, each with the variables of one evaluation. It
writes a JSON object: ``false``, the indexes of the cases of which the expression is not
true, or ``error``.
"""

import json
import math
import os
import resource
import sys

import cel

CPU_SECONDS = 3
"""Processor time, besides that of starting; all cases together, so that thousands of samples take some milliseconds."""

MEMORY_BYTES = 128 * 1024 * 1024
"""Address space. 51 MiB are there before anything is read; 500 objects of 6 KiB need 10 MiB more."""

NICE = 10


def main() -> None:
    """Evaluate what standard input says; whatever happens, nothing else than an answer means that it holds."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    asked = json.load(sys.stdin)
    json.dump(evaluate(asked["expression"], asked["cases"]), sys.stdout)


def evaluate(expression: str, cases: list[dict[str, object]]) -> dict[str, object]:
    """Evaluate an expression for each case."""
    try:
        program = cel.compile(expression)
        results = [program.execute(case) for case in cases]
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds, and all mean the same
        return {"error": f"{type(error).__name__}: {error}".replace("\n", " ")}
    for result in results:
        if not isinstance(result, bool):
            return {"error": f"it comes to a value of type {type(result).__name__}, not to true or false"}
    return {"false": [index for index, result in enumerate(results) if result is False]}


if __name__ == "__main__":
    main()
