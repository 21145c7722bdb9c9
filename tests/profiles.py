"""What must be set before pytest imports the first module of ours; loaded by `-p tests.profiles` in pyproject.toml."""

import os

from hypothesis import settings

# Values are frozen for real (rules/values.py).
os.environ.setdefault("STRICT_VALUES", "1")

# No deadlines: tests assert no times. Both profiles print the line that reruns a failing example.
settings.register_profile("local", deadline=None, print_blob=True)
# The same examples in every run: a red build is red for everybody, and for a reason that stands in the change itself.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
