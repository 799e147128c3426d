"""The entry of the command ``fencepost``: handlers first where the process will have to be stopped, then the rest."""

import sys

from fencepost import early

if next((word for word in sys.argv[1:] if not word.startswith("-")), "") in ("worker", "leader"):
    early.install()


def main() -> int:
    """Run the command line. A worker or leader leaves by `early.finish`, everything else returns its exit code."""
    from fencepost.cli.main import main as cli

    code = cli()
    if early.is_installed():
        early.finish(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
