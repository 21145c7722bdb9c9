"""Files that an operator writes in YAML: checked whole, and refused with the line and the key of whatever is wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from chassis.settings import SettingsError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """Leaves dates as they are written, so that a wrong one is told of like everything else."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class FileRefused(SettingsError):
    """The file says something that makes no sense; the message names line and key."""


def in_file(path: Path, read: Callable[[str], T]) -> T:
    """What `read` makes of a file's text; its problems are told with the file's name."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{path}: {error}") from None
    try:
        return read(content)
    except FileRefused as error:
        raise FileRefused("\n".join(f"{path}, {line}" for line in str(error).splitlines())) from None


def checked(content: str, model: type[M]) -> M:
    """A text as `model` has it, or all that is wrong with it, a line each."""
    try:
        root = yaml.compose(content, Loader=_Loader)
        if root is None:
            raise FileRefused("line 1: the file is empty")
        _refuse_doubled_keys(root)
        document = yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise FileRefused(f"line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise FileRefused(f"line 1: {error}") from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise FileRefused("\n".join(_problem(root, each["loc"], each["msg"]) for each in error.errors())) from None


# Where a value stands in the text


def _refuse_doubled_keys(node: yaml.Node) -> None:
    """YAML forbids them, and the library takes the last one without a word."""
    for mapping in _mappings(node):
        seen = set()
        for key, _ in mapping.value:
            if key.value in seen:
                raise FileRefused(f"line {key.start_mark.line + 1}: {key.value} is there twice")
            seen.add(key.value)


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, child in node.value:
            yield from _mappings(child)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from _mappings(child)


def _problem(root: yaml.Node, location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(map(str, _named(location)))
    return f"line {_line(root, location)}: {key}: {message.removeprefix('Value error, ')}"


def _named(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Without what pydantic adds for the key of a mapping."""
    return tuple(part for part in location if part != "[key]")


def _line(root: yaml.Node, location: tuple[int | str, ...]) -> int:
    """The line of a value; of what is missing the line of what it is missing in."""
    node, line = root, root.start_mark.line + 1
    for part in _named(location):
        if isinstance(node, yaml.MappingNode):
            found = next(((key, child) for key, child in node.value if key.value == str(part)), None)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
