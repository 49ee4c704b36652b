"""The root command `dds`, and `dds completion`."""

from __future__ import annotations

import click
from click import shell_completion

from dds_commands.running import COMPLETING, Commands, Loaded
from dds_commands.screen import show
from dds_core import __version__


@click.group("dds", cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dds", message="%(prog)s %(version)s")
def dds() -> None:
    """The dynamic device scaler: run it, and see what it did and why.

    SOURCE is a recording of a cluster, an export, archives followed by the rest of their log, or a database (URL or SQLite
    file); dds recognizes it by its content. Without SOURCE the log is read: --log, else DDS_LOG, else the log of dds serve.

    \b
    Exit codes:
      0    success
      1    wrong usage or input; a file or database that cannot be used or reached
           dds serve, publish, autoscale: cannot continue, such as without the lease
      2    verification failed
      3    dds whatif, dds plan: the model does not fit what was recorded
      130  interrupted
    """


class _Completing(shell_completion.ShellComplete):
    """Complete file names if there is no other completion, as a shell does by default."""

    def get_completions(self, args: list[str], incomplete: str) -> list[shell_completion.CompletionItem]:
        return super().get_completions(args, incomplete) or [shell_completion.CompletionItem(incomplete, type="file")]


for known in (shell_completion.BashComplete, shell_completion.ZshComplete, shell_completion.FishComplete):
    shell_completion.add_completion_class(type(known.__name__, (_Completing, known), {}), known.name)


@click.command("completion", short_help="Print the shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which a shell completes commands, options, values and files.

    \b
    bash   source <(dds completion bash)     in ~/.bashrc
    zsh    source <(dds completion zsh)      in ~/.zshrc
    fish   dds completion fish | source      in ~/.config/fish/config.fish
    """
    found = shell_completion.get_completion_class(shell)
    assert found is not None
    # BashComplete.source checks the version of this machine's bash, but the script may be for another machine.
    show(shell_completion.ShellComplete.source(found(dds, {}, "dds", COMPLETING)).rstrip())


dds.commands = Loaded(
    {
        **dict.fromkeys(("serve", "publish", "autoscale"), "serve"),
        **dict.fromkeys(("claims", "devices"), "claims_and_devices"),
        **dict.fromkeys(("timeline", "diagram"), "timelines"),
        "status": "status",
        "incident": "incident",
        "replay": "replaying",
        "pools": "pools",
        "usage": "costs",
        "export": "exporting",
        "report": "reports",
        "ui": "ui",
        "log": "logs",
        "db": "database",
        "doctor": "doctor",
    },
    lab={
        "lab": "Simulate a cluster that answers like a real one.",
        "plan": "Calculate how big the pools have to be.",
        "whatif": "Simulate what happened under other policies.",
    },
)
dds.add_command(completion)
