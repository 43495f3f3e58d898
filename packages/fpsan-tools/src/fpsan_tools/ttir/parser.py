"""Parse the text of Triton's intermediate representation into operations, blocks and functions.

Only the printed form is read, so no binding of a particular Triton version is needed. Nothing is interpreted here: an
operation is its name, operands, attributes, types, regions and source location.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import Type, parse_type, split_top


@dataclass(frozen=True)
class Location:
    """A place in a source file.

    Attributes:
        file: path as the compiler recorded it, "" if unknown.
        line: line number from 1, 0 if unknown.
        column: column number from 1, 0 if unknown.
        caller: where the surrounding inlined function was called, if it was.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    caller: Location | None = None

    @property
    def user(self) -> Location:
        """The innermost place outside of Triton's own library: the line that the kernel's author wrote."""
        place: Location | None = self
        while place is not None:
            if place.file and "/triton/language/" not in place.file.replace("\\", "/"):
                return place
            place = place.caller
        return self

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "unknown place"


@dataclass(eq=False)
class Operation:
    """One operation.

    Attributes:
        name: dialect and name, as in "arith.addf".
        results: names of the results.
        operands: names of the operands, in order.
        words: keywords between the operands, as in "slt" of `arith.cmpi slt, ...`.
        attributes: attributes by name, as text; string literals without their quotes.
        strings: string literals of the head, in order.
        types: texts of the types after the colon: before and after the arrow.
        regions: nested regions.
        location: where the operation comes from.
        head: text between the name and the colon, for operations with a syntax of their own.
        dead: names whose last use is this operation (set by `operations.link`).
        successors: labels and passed names of a branch.
        handler: what evaluates it (set by `operations.link`).
        control: whether the handler wants the frame instead of the operands.
    """

    name: str
    results: list[str]
    operands: list[str]
    words: list[str]
    attributes: dict[str, str]
    strings: list[str]
    types: tuple[list[Type], list[Type]]
    regions: list[Region]
    location: Location
    head: str
    dead: list[str] = field(default_factory=list)
    successors: list[tuple[str, list[str]]] = field(default_factory=list)
    handler: Any = None
    control: bool = False

    @property
    def result_type(self) -> Type:
        """The type after the arrow, or the last one if there is no arrow."""
        return (self.types[1] or self.types[0])[-1]

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute, as in `axis = 1 : i32`."""
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                raise FpsanError(f"operation {self.name} has no attribute {name!r}")
            return default
        return int(text.split(":")[0])

    def flag(self, name: str) -> bool:
        """A boolean attribute; absent means false."""
        return self.attributes.get(name, "false").split(":")[0].strip() == "true"

    def integers(self, name: str) -> list[int]:
        """An attribute such as `array<i32: 1, 0>`."""
        match = re.fullmatch(r"array<i\d+(?::\s*(.*))?>", self.attributes[name].strip())
        if match is None:
            raise FpsanError(f"operation {self.name}: attribute {name} = {self.attributes[name]!r} is not understood")
        return [int(part) for part in split_top(match.group(1) or "")]


@dataclass(eq=False)
class Block:
    """A basic block: its label ("" for the entry), argument names and types, and operations."""

    label: str
    arguments: list[tuple[str, Type]]
    operations: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Region:
    """A list of blocks; structured control flow has exactly one."""

    blocks: list[Block]

    @property
    def block(self) -> Block:
        """The only block.

        Raises:
            FpsanError: if there are several.
        """
        if len(self.blocks) != 1:
            raise FpsanError("a region with several basic blocks where one is expected")
        return self.blocks[0]


@dataclass(eq=False)
class Function:
    """A function: name, whether it is the kernel (public), arguments and body."""

    name: str
    public: bool
    arguments: list[tuple[str, Type]]
    body: Region


@dataclass(eq=False)
class Module:
    """Functions by name; `kernel` is the public one.

    Attributes:
        functions: all functions.
        text: what was parsed.
        sequential: whether programs must run one after the other (set by `operations.link`).
        warps: number of warps per program (TTGIR).
        layouts: definitions of layout names (TTGIR), such as "#blocked".
        definitions: the operation that defines each name (set by `operations.link`).
    """

    functions: dict[str, Function]
    text: str
    sequential: bool = False
    warps: int = 4
    layouts: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Operation] = field(default_factory=dict)

    @property
    def kernel(self) -> Function:
        public = [f for f in self.functions.values() if f.public]
        if len(public) != 1:
            raise FpsanError(f"expected one public function, found {len(public)}")
        return public[0]

    def operations(self) -> list[Operation]:
        """All operations, nested ones included, in textual order."""
        found: list[Operation] = []

        def visit(region: Region) -> None:
            for block in region.blocks:
                for operation in block.operations:
                    found.append(operation)
                    for inner in operation.regions:
                        visit(inner)

        for function in self.functions.values():
            visit(function.body)
        return found


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_QUOTED_NAME = re.compile(r'^(\s*(?:%[^"=]* = )?)"([a-z_]+\.[\w.]+)"(?=\()', re.MULTILINE)
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_PLACEHOLDER = re.compile("\x02(\\d+)\x03")
_OPERAND = re.compile(r"%[\w.$\-]+(?:#\d+)?")
_RESULTS = re.compile(r"((?:%[\w.$\-]+(?::\d+)?(?:, )?)+) = (.*)", re.DOTALL)
_NAME = re.compile(r"([a-zA-Z_][\w.]*)(.*)", re.DOTALL)


def parse(text: str) -> Module:
    """Parse the printed form of a module.

    Args:
        text: the module, with or without debug locations.

    Returns:
        Its functions, with the location of every operation where the text has them.

    Raises:
        FpsanError: if the text has a form that is not understood.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.strings: list[str] = []
        text = _QUOTED_NAME.sub(r"\1\2", text)
        self.lines = [line.strip() for line in _STRING.sub(self._hide, text).splitlines()]
        self.lines = [line for line in self.lines if line and not line.startswith("//")]
        self.position = 0
        self.locations: dict[str, str] = {}
        self.layouts: dict[str, str] = {}
        for line in self.lines:
            if line.startswith("#") and " = " in line:
                name, definition = line.split(" = ", 1)
                (self.locations if name.startswith("#loc") else self.layouts)[name] = definition
        self.locate = lru_cache(maxsize=None)(self._locate)

    # Strings are hidden first, so that brackets, colons and braces inside of them cannot mislead.
    def _hide(self, match: re.Match[str]) -> str:
        self.strings.append(_unescape(match.group()[1:-1]))
        return f"\x02{len(self.strings) - 1}\x03"

    def _show(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda m: self.strings[int(m.group(1))], text)

    def _locate(self, text: str) -> Location:
        text = text.strip()
        if text.startswith("#"):
            definition = self.locations.get(text)
            return Location() if definition is None else self.locate(definition)
        if text.startswith("loc("):
            return self.locate(text[4:-1])
        if text.startswith("callsite("):
            callee, caller = _split_at(text[len("callsite(") : -1])
            inner = self.locate(callee)
            outer = self.locate(caller)
            return _with_caller(inner, outer)
        if text.startswith("fused"):
            start = text.index("[")
            for part in split_top(text[start + 1 : text.rindex("]")]):
                place = self.locate(part)
                if place.file:
                    return place
            return Location()
        match = re.match("\x02(\\d+)\x03(.*)", text, re.DOTALL)
        if match is None:
            return Location()
        string, rest = self.strings[int(match.group(1))], match.group(2)
        numbers = re.match(r":(\d+):(\d+)", rest)
        if numbers is not None:
            return Location(string, int(numbers.group(1)), int(numbers.group(2)))
        if rest.startswith("("):  # a variable's name around a location
            return self.locate(rest[1:-1])
        return Location()

    def module(self) -> Module:
        functions: dict[str, Function] = {}
        warps = re.search(r'"ttg\.num-warps" = (\d+)', self.text)
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if line.startswith("tt.func"):
                function = self.function()
                functions[function.name] = function
            else:
                self.position += 1
        return Module(functions, self.text, warps=int(warps.group(1)) if warps else 4, layouts=self.layouts)

    def function(self) -> Function:
        line = self._line()
        match = re.match(r"tt\.func (public |private )?@(\S+?)\(", line)
        if match is None:
            raise FpsanError(f"function header is not understood: {self._show(line)!r}")
        close = _closing(line, match.end() - 1)
        arguments = []
        for argument in split_top(line[match.end() : close]):
            name, rest = argument.split(":", 1)
            rest = re.sub(r"loc\(.*\)$", "", rest.strip()).strip()
            rest = re.sub(r"\{.*\}$", "", rest).strip()
            arguments.append((name.strip(), parse_type(self._show(rest))))
        body, _ = self.region()
        return Function(self._show(match.group(2)), match.group(1) == "public ", arguments, body)

    def _line(self) -> str:
        line = self.lines[self.position]
        self.position += 1
        return line

    def region(self) -> tuple[Region, str]:
        """Parse up to the closing brace; return the region and the line with the brace."""
        blocks = [Block("", [])]
        while not self.lines[self.position].startswith("}"):
            line = self.lines[self.position]
            if line.startswith("^"):
                self.position += 1
                block = self.label(line)
                if not blocks[-1].operations and not blocks[-1].label and len(blocks) == 1:
                    blocks = [block]
                else:
                    blocks.append(block)
            else:
                blocks[-1].operations.append(self.operation())
        return Region(blocks), self._line()

    def label(self, line: str) -> Block:
        match = re.match(r"\^(\w+)", line)
        assert match is not None
        arguments = []
        if line[match.end() :].startswith("("):
            close = _closing(line, match.end())
            for argument in split_top(line[match.end() + 1 : close]):
                name, rest = argument.split(":", 1)
                arguments.append((name.strip(), parse_type(re.sub(r"loc\(.*\)$", "", rest.strip()))))
        return Block(match.group(1), arguments)

    def operation(self) -> Operation:
        line = self._line()
        line, location = self._strip_location(line)
        results: list[str] = []
        match = _RESULTS.match(line)
        if match is not None:
            line = match.group(2)
            for result in match.group(1).split(", "):
                name, _, count = result.partition(":")
                results += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        match = _NAME.match(line)
        if match is None:
            raise FpsanError(f"line is not understood: {self._show(line)!r}")
        name, rest = match.group(1), match.group(2).strip()
        regions: list[Region] = []
        tail = ""
        if rest.endswith("{"):
            rest = rest[:-1].rstrip()
            while True:
                region, closing = self.region()
                regions.append(region)
                closing, place = self._strip_location(closing)
                if closing.endswith("{"):  # `} else {`, `} do {`, `}, {`
                    continue
                location = place if place.file else location
                tail = closing[1:].strip()
                break
            if rest.endswith("("):  # the generic form: "name"(operands) <{attributes}> ({ ... }) : types
                rest = rest[:-1].rstrip()
                tail = tail.removeprefix(")").strip()
        return self._build(name, results, rest, tail, regions, location)

    def _build(
        self, name: str, results: list[str], rest: str, tail: str, regions: list[Region], location: Location
    ) -> Operation:
        head, types = _split_types(f" {rest}")
        attribute_text = head
        if tail:
            more, tail_types = _split_types(f" {tail}")
            types = tail_types or types
            attribute_text = f"{head} {more}"
        attributes: dict[str, str] = {}
        plain = attribute_text
        for start, end in reversed(_braces(attribute_text)):
            for item in split_top(attribute_text[start + 1 : end]):
                key, _, value = item.partition("=")
                attributes[key.strip()] = self._show(value.strip()) if value else "true"
            plain = plain[:start] + " " + plain[end + 1 :]
        words: list[str] = []
        for item in split_top(plain):
            if item.startswith("<") and item.endswith(">"):
                continue
            match = re.fullmatch(r"([a-zA-Z]\w*)\s*=\s*([^%]+)", item)
            if match is not None:
                attributes[match.group(1)] = self._show(match.group(2).strip())
            else:
                words += [w for w in re.findall(r"(?<![%\w.#^@\x02$\-])[a-zA-Z_]\w*", item) if "%" not in w]
        operation = Operation(
            name=name,
            results=results,
            operands=_OPERAND.findall(plain),
            words=words,
            attributes=attributes,
            strings=[self.strings[int(i)] for i in _PLACEHOLDER.findall(plain)],
            types=([], []) if name in _OWN_TYPES else _parse_types(self._show(types)),
            regions=regions,
            location=location,
            head=self._show(head),
        )
        if name in ("cf.br", "cf.cond_br"):
            _read_successors(operation, rest)
        return operation

    def _strip_location(self, line: str) -> tuple[str, Location]:
        start = line.rfind(" loc(")
        if start < 0 or _closing(line, start + 4) != len(line) - 1:
            # a nested location is opened earlier: find the outermost one that ends the line
            start = -1
            for match in re.finditer(r" loc\(", line):
                if _closing(line, match.end() - 1) == len(line) - 1:
                    start = match.start()
                    break
            if start < 0:
                return line, Location()
        return line[:start].rstrip(), self.locate(line[start + 1 :])


# Operations whose text after the colon is not a list of types of operands and results.
_OWN_TYPES = frozenset({"cf.br", "cf.cond_br", "scf.for", "scf.while"})


def _read_successors(operation: Operation, rest: str) -> None:
    """Targets of a branch with the names of the values they receive; the condition stays the only operand."""
    operation.operands = [] if operation.name == "cf.br" else _OPERAND.findall(rest.split(",", 1)[0])
    for match in re.finditer(r"\^(\w+)(\()?", rest):
        values: list[str] = []
        if match.group(2):
            inside = rest[match.end() : _closing(rest, match.end() - 1)]
            values = _OPERAND.findall(inside.split(" : ")[0])
        operation.successors.append((match.group(1), values))


def _with_caller(place: Location, caller: Location) -> Location:
    if place.caller is None:
        return Location(place.file, place.line, place.column, caller)
    return Location(place.file, place.line, place.column, _with_caller(place.caller, caller))


def _split_at(text: str) -> tuple[str, str]:
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([<") - (character in ")]>")
        if depth == 0 and text.startswith(" at ", position):
            return text[:position], text[position + 4 :]
    raise FpsanError(f"location is not understood: {text!r}")


def _closing(text: str, start: int) -> int:
    """Position of the parenthesis that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    return -1


def _braces(text: str) -> list[tuple[int, int]]:
    """Spans of outermost `{...}`."""
    spans, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "{":
            if depth == 0:
                start = position
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                spans.append((start, position))
    return spans


def _split_types(text: str) -> tuple[str, str]:
    """Split `operands {attributes} : types` at the last colon outside of brackets."""
    depth, split, previous = 0, -1, ""
    for position, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}" and not (character == ">" and previous == "-"):
            depth -= 1
        elif character == ":" and depth == 0 and previous == " ":
            split = position
        previous = character
    if split < 0:
        return text, ""
    return text[:split].strip(), text[split + 1 :].strip()


def _parse_types(text: str) -> tuple[list[Type], list[Type]]:
    if not text:
        return [], []
    before, arrow, after = text.partition("->") if "->" in text else text.partition(" to ")
    if not arrow:
        return _type_list(text), []
    return _type_list(before), _type_list(after)


def _type_list(text: str) -> list[Type]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [parse_type(_full_name(part)) for item in split_top(text) for part in split_top(item, "*")]


def _full_name(text: str) -> str:
    """`<f32>` and `<16x16xf32>` abbreviate a pointer and a descriptor where only those can stand."""
    if not text.startswith("<"):
        return text
    return f"!tt.tensordesc{text}" if re.match(r"<(tensor<|\d+x)", text) else f"!tt.ptr{text}"


def _unescape(raw: str) -> str:
    def decode(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 2:
            return chr(int(code, 16))
        return {"n": "\n", "t": "\t"}.get(code, code)

    return _ESCAPE.sub(decode, raw)
