"""What the noxfile says, for tests of pages that name its sessions; nox need not be installed."""

import ast
from pathlib import Path
from typing import Any

NOXFILE = Path(__file__).resolve().parents[3] / "noxfile.py"


def _statements() -> list[ast.stmt]:
    return ast.parse(NOXFILE.read_text(encoding="utf-8")).body


def sessions() -> set[str]:
    """The names of the sessions."""
    functions = [node for node in _statements() if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if "session" in ast.unparse(node).partition("def ")[0]}


def defined(name: str) -> Any:
    """A function or constant."""
    for node in _statements():
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        if name in [getattr(target, "id", getattr(target, "name", "")) for target in targets]:
            names: dict[str, Any] = {}
            exec(compile(ast.Module([node], []), NOXFILE.name, "exec"), names)
            return names[name]
    raise AssertionError(name)
