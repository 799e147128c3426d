"""Real workers under real faults; the history that they leave in a folder; its check and its report.

The check is a second opinion. It reads nothing but the folder, shares no line of code with the library, and needs
nothing but Python: ``python -m fencepost.testing.torture.checker FOLDER``. `docs/reliability/torture.md` has the rules.
"""
