"""The frame of all commands: how they are invoked, show their help and fail.

Exit codes: 0 done or yes; 1 no, or it cannot be done; 2 wrong usage; 3 the cluster cannot be reached or denies access;
4 the time given with ``--timeout`` is over.
"""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TextIO, cast

import click
from click.shell_completion import CompletionItem

from nodeupgrade.api.printable import printable
from nodeupgrade.cli.console import say, write

PROGRAM = "nodeupgrade"
PLUGIN = "kubectl-nodeupgrade"
OK, NO, WRONG_USAGE, NO_CLUSTER, TIME_IS_OVER = range(5)

_STANDARD_INPUT = f"{__name__}.standard_input"
_WARNINGS = f"{__name__}.warnings"
_COMMAND_LINE = re.compile(r"(^|[|&;] |`)nodeupgrade (?=[a-z-])")
"""Where a command line of ours begins: at the start of a text, after a pipe or a semicolon, or in backquotes."""


def completion_variable(program: str) -> str:
    """Return the environment variable by which a shell asks the program for completions; the plugin has the same."""
    return f"_{program.upper()}_COMPLETE"


def called() -> str:
    """Return the name under which the program was called: ``nodeupgrade``, or ``kubectl nodeupgrade`` as a plugin."""
    ctx = click.get_current_context(silent=True)
    return (ctx.find_root().info_name if ctx is not None else None) or PROGRAM


def as_called(text: str) -> str:
    """Return a text with its command lines under the name under which the program was called."""
    return _COMMAND_LINE.sub(lambda found: f"{found[1]}{called()} ", text)


def warn(text: str) -> None:
    """Print a warning on standard error; a command that looks again does not repeat it."""
    said: set[str] = click.get_current_context().meta.setdefault(_WARNINGS, set())
    if text not in said:
        said.add(text)
        say(f"warning: {as_called(text)}", err=True)


class CannotError(click.ClickException):
    """The command cannot be carried out; the message says why and what to do."""

    exit_code = NO

    def show(self, _file: Any = None) -> None:
        """Print one line on standard error."""
        say(f"error: {as_called(' '.join(self.format_message().split()))}", err=True)


class NoClusterAnswerError(CannotError):
    """The cluster cannot be reached, does not authenticate us, or denies access."""

    exit_code = NO_CLUSTER


class CommandWithExamples(click.Command):
    """A command whose help ends with examples, with the program's name as it was invoked."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, unwrapped, after everything else."""
        if not self.examples:
            return
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {as_called(example)}\n")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, with command lines that can be copied."""
        written, self.help = self.help, as_called(self.help or "")
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = written


class Lazy(click.Command):
    """A command of which only the name and the summary are known until it is used."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        """Take its name, the module of ``cli.commands`` that has it, and the first sentence of its help."""
        super().__init__(name, short_help=summary)
        self.module = module

    def load(self) -> click.Command:
        """Import it."""
        module = importlib.import_module(f"nodeupgrade.cli.commands.{self.module}")
        return cast("click.Command", getattr(module, f"{str(self.name).replace('-', '_')}_command"))


class Program(click.Group):
    """The root: detects whether kubectl invoked it, and lists its commands in sections."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[Lazy]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = dict(sections)
        for commands in self.sections.values():
            for each in commands:
                self.add_command(each)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command that is called."""
        found = super().get_command(ctx, cmd_name)
        return found.load() if isinstance(found, Lazy) else found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option, without importing a command."""
        begun = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        named = [CompletionItem(name, help=self.commands[name].short_help) for name in begun]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of commands for each section."""
        widest = max(map(len, self.commands))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{each.name:<{widest}}", each.short_help or "") for each in commands])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if there is nothing else; click's own way ends as wrong usage."""
        if not args and not ctx.resilient_parsing:
            write(f"{ctx.get_help()}\n")
            ctx.exit()
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line of the program itself."""
        with _safe_complaints():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the command line of a command, and run it."""
        with _safe_complaints():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run; as a kubectl plugin under kubectl's name, so that usage lines can be copied."""
        if kwargs.get("prog_name") is None:
            plugin = PurePath(sys.argv[0]).name.removesuffix(".exe") == PLUGIN
            kwargs["prog_name"] = f"kubectl {PROGRAM}" if plugin else PROGRAM
            kwargs.setdefault("complete_var", completion_variable(PROGRAM))
        _replace_unencodable()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Local I/O only; API errors have their own exceptions.
            _discard_output()
            named = f"{error.filename}: " if error.filename else ""
            _print_error(f"cannot read the input or write the output: {named}{error.strerror or error}")
            sys.exit(NO)
        finally:
            _flush_output()


class InputFile(click.File):
    """A file to read, or standard input for '-'. Invalid UTF-8 is passed on for the reader to handle."""

    def __init__(self) -> None:
        super().__init__("r", encoding="utf-8", errors="surrogateescape")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Open it."""
        if value == "-" and (sys.stdin is None or sys.stdin.closed):
            self.fail("standard input is closed", param, ctx)
        if value == "-" and ctx is not None and ctx.meta.setdefault(_STANDARD_INPUT, self) is not self:
            self.fail("another option reads standard input already", param, ctx)
        return super().convert(value, param, ctx)


class Once(click.Option):
    """An option of which click itself would take the last, in silence, if it is given twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "multiple": True})

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the only value, or None."""
        if len(given := value or ()) > 1:
            raise click.BadParameter("it is given twice; give it once", ctx, self)
        return self.type.convert(given[0], self, ctx) if given else None

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return None where click would return no values."""
        found = super().process_value(ctx, value)
        return None if found == () else found


def name_of(file: TextIO) -> str:
    """Return the name of an input for messages."""
    return str(getattr(file, "name", "<stdin>"))


@contextlib.contextmanager
def _safe_complaints() -> Iterator[None]:
    """Make click's own complaints safe: they repeat arguments and names of files."""
    try:
        yield
    except (CannotError, click.MissingParameter):  # these say it on one line; these repeat nothing
        raise
    except click.ClickException as error:
        if (said := error.format_message()).isprintable():
            raise
        if isinstance(error, click.UsageError):
            raise click.UsageError(printable(said), error.ctx) from error
        raise click.ClickException(printable(said)) from error


def _replace_unencodable() -> None:
    """Print a question mark for every character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _flush_output() -> None:
    """Flush standard output while an error can still be reported."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            sys.exit(NO)
        _print_error(f"cannot write the output: {getattr(error, 'strerror', None) or error}")
        sys.exit(NO)


def _discard_output() -> None:
    """Replace standard output, so that Python does not try to flush it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)


def _print_error(message: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        say(f"error: {' '.join(message.split())}", err=True)


def command(name: str, *examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function into a command; its docstring and the examples become the help."""
    return click.command(name, cls=CommandWithExamples, examples=examples)
