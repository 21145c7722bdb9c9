"""The table service as a process: reads its settings, wires the parts, runs until told to stop."""

from pathlib import Path

from chassis.auth import Verifier
from chassis.clock import Clock
