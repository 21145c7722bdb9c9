"""What a build of the wheel adds to pyproject.toml: the stubs of protos/ and the dependencies of runtime.in.

Loaded by hatchling, in a build environment that has none of our packages on its path.
"""

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class StubsHook(BuildHookInterface[BuilderConfig]):
    """Makes the stubs anew, so that the wheel never carries those of another day."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files are gathered."""
        root = Path(self.root)
        self._stubs = tempfile.TemporaryDirectory()
        _gen(root).make(root, Path(self._stubs.name))
        for package in ("levata", "buf"):
            build_data["force_include"][str(Path(self._stubs.name) / package)] = package

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        self._stubs.cleanup()


class DependenciesHook(MetadataHookInterface):
    """Keeps the list of dependencies in one place."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when the metadata is read."""
        lines = (Path(self.root) / "requirements" / "runtime.in").read_text().splitlines()
        metadata["dependencies"] = [line for line in lines if line and not line.startswith("#")]


def get_build_hook() -> type[BuildHookInterface[BuilderConfig]]:
    """Hatchling asks, because this file has two hooks."""
    return StubsHook


def get_metadata_hook() -> type[MetadataHookInterface]:
    """See `get_build_hook`."""
    return DependenciesHook


def _gen(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("levata_gen", root / "tools" / "gen.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
