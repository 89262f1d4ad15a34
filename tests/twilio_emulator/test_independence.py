"""The emulator is no mirror: it shares no code with what it tests, nor with Twilio's library."""

import ast
from pathlib import Path

HERE = Path(__file__).parent


def test_it_imports_neither_the_program_under_test_nor_twilios_library() -> None:
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.partition(".")[0] not in ("callmcp", "twilio"), f"{path.name} imports {name}"
                assert not name.startswith("tests") or name.startswith("tests.twilio_emulator"), path.name


def test_every_file_is_short_enough_to_be_one_idea() -> None:
    for path in HERE.glob("*.py"):
        if not path.name.startswith("test_"):
            assert len(path.read_text().splitlines()) <= 400, path.name
