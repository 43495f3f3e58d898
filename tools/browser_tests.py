"""Test a built site in headless Chromium: `python tools/browser_tests.py SITE`.

Every page, on desktop and phone widths, in light and dark: no script fails, nothing is wider than the screen, nothing
is asked of another host, every formula is typeset. The explorer's tables are compared with numfmt and fpsan_tools, and
its controls are used as a reader would use them.

Needs selenium, Chromium and its driver; the packages of this repository are what the pages are compared with.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

sys.path.insert(0, str(Path(__file__).resolve().parent))

import site_rules

import numfmt
from fpsan_tools import algebra

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")
MODES = ("nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd")

Test = Callable[["Browser"], int]
TESTS: list[Test] = []


def test(function: Test) -> Test:
    """Register a test: it returns how many things it checked, and raises AssertionError for the first that is wrong."""
    TESTS.append(function)
    return function


class Browser:
    """A browser and the address of the site."""

    def __init__(self, driver: webdriver.Chrome, base: str, site: Path) -> None:
        self.driver = driver
        self.base = base
        self.site = site

    def open(self, page: str) -> None:
        """Load a page anew, also where only the part after # differs."""
        self.driver.get("about:blank")
        self.driver.get(self.base + page)

    def run(self, script: str, *arguments: Any) -> Any:
        """The JSON value of a JavaScript function's body."""
        return self.driver.execute_script(script, *arguments)

    def part(self, name: str) -> WebElement:
        """A control of an explorer page."""
        return self.driver.find_element(By.CSS_SELECTOR, f'.explorer [data-part="{name}"]')

    def choose(self, name: str, value: str) -> None:
        """Choose an entry of a list."""
        Select(self.part(name)).select_by_value(value)

    def fill(self, name: str, text: str) -> None:
        """Type into a field, in place of what is there."""
        field = self.part(name)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def value(self, name: str) -> str:
        """What a field holds."""
        return str(self.part(name).get_property("value"))

    def text_of(self, name: str) -> str:
        """What a part shows."""
        return self.part(name).text

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def foreign_requests(self) -> list[str]:
        """Addresses on other hosts that were asked for since the last call."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        own = urlsplit(self.base).netloc
        return [url for url in asked if urlsplit(url).scheme in ("http", "https", "ws") and urlsplit(url).netloc != own]


def eventually(ask: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """Ask again until the answer is good enough, for at most five seconds; the last answer."""
    answer = ask()
    for _ in range(100):
        if enough(answer):
            break
        time.sleep(0.05)
        answer = ask()
    return answer


def scheme_of(browser: Browser) -> str:
    """The colour scheme that the page shows."""
    return str(browser.run("return document.body.getAttribute('data-md-color-scheme')"))


# Every page.


@test
def pages_fit_and_are_silent(browser: Browser) -> int:
    """No page is wider than its screen, complains, or asks another host for anything; formulas are typeset."""
    pages = sorted(path.relative_to(browser.site).as_posix() for path in browser.site.rglob("*.html"))
    assert pages, "the site has no pages"
    checked = 0
    for (screen, size), scheme in zip(SCREENS.items(), SCHEMES, strict=True):
        # A browser of its own: the site remembers a reader's scheme.
        with started() as driver:
            checked += visit(Browser(driver, browser.base, browser.site), pages, screen, size, scheme)
    return checked


def visit(browser: Browser, pages: list[str], screen: str, size: tuple[int, int], scheme: str) -> int:
    """Look at every page on one screen in one scheme; the number of pages."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": screen == "phone"}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    wanted = {"light": "default", "dark": "slate"}[scheme]
    for page in pages:
        browser.driver.get(browser.base + page)
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= size[0], f"{page} is {wide} pixels wide on a {screen} of {size[0]}"
        raw = "return [...document.querySelectorAll('.arithmatex')].filter(e => !e.querySelector('.katex')).length"
        assert browser.run(raw) == 0, f"{page}: {browser.run(raw)} formulas are not typeset"
        wrong = browser.run("return document.querySelectorAll('.katex-error').length")
        assert wrong == 0, f"{page}: {wrong} formulas are wrong"
        shown = eventually(lambda: scheme_of(browser), lambda seen: seen == wanted)
        assert shown == wanted, f"{page} is {shown} in {scheme}"
    complaints = browser.complaints()
    assert not complaints, f"the console says, {len(complaints)} times: {complaints[:3]}"
    foreign = browser.foreign_requests()
    assert not foreign, f"asked of other hosts, {len(foreign)} times: {foreign[:3]}"
    return len(pages)


@test
def the_search_finds_a_page(browser: Browser) -> int:
    """The search works, with what the site itself holds."""
    browser.open("index.html?q=stochastic")
    script = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    found = eventually(lambda: browser.run(script), bool)
    assert any("rounding-and-accumulation" in link for link in found), f"found {found}"
    return 1


@test
def pages_work_from_a_disk(browser: Browser) -> int:
    """Opened as files, without a server: the search answers in both languages, formulas and live pages work."""
    found = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    base = f"{browser.site.as_uri()}/"
    with started() as driver:
        disk = Browser(driver, base, browser.site)
        for page, expected in (
            ("index.html?q=stochastic", "rounding-and-accumulation"),
            ("zh/tutorials/index.html?q=payload", "zh/tutorials/"),
        ):
            disk.open(page)
            links = eventually(lambda: disk.run(found), bool)
            assert any(expected in link for link in links), f"{page}: found {links}"
            assert all(link.startswith(base) for link in links)
        disk.open("explorer/formats.html#f=FP8_E4M3&c=3c")
        disk.part("bits").find_element(By.TAG_NAME, "button").click()
        assert disk.value("decimal") == "-1.5"
        assert "c=bc" in disk.driver.current_url
        disk.open("explanation/condition-and-bounds.html")
        assert disk.run("return document.querySelectorAll('.katex').length") > 10
        complaints = disk.complaints()
        assert not complaints, f"the console says: {complaints[:3]}"
    return 8


# The explorer's tables.


@test
def every_code_of_small_formats_decodes_as_in_numfmt(browser: Browser) -> int:
    """All codes of all built-in formats of at most 16 bits."""
    browser.open("explorer/formats.html")
    assert set(browser.run("return Object.keys(Formats.BUILT_IN)")) == set(numfmt.FORMATS)
    checked = 0
    for fmt in numfmt.FORMATS.values():
        if fmt.bits > 16:
            continue
        script = """
            const f = Formats.Format.named(arguments[0]);
            return Array.from({ length: 2 ** f.bits }, (_, c) => {
              const d = f.decode(BigInt(c));
              if (d.kind !== "finite") return [d.kind, d.negative];
              return [`${d.value.n}/${d.value.d}`, d.negative];
            });"""
        shown = browser.run(script, fmt.name)
        for code, ((text, negative), value) in enumerate(zip(shown, fmt.values(), strict=True)):
            what = f"{fmt.name} code {code:#x}"
            if np.isnan(value):
                assert text == "nan", what
            elif np.isinf(value):
                assert (text, negative) == ("infinity", bool(value < 0)), what
            else:
                assert Fraction(text) == Fraction(float(value)), what
                assert negative == bool(np.signbit(value)), what
            checked += 1
    return checked


def custom_formats(rng: np.random.Generator, count: int) -> Iterator[numfmt.FloatFormat]:
    """Random formats of at most 8 bits, of every kind, with and without sign and subnormals."""
    kinds = list(numfmt.formats.KINDS)
    for i in range(count):
        kind = kinds[i % len(kinds)]
        facts = {} if kind == "scale" else {"signed": bool(rng.integers(2)), "subnormals": bool(rng.integers(2))}
        if kind == "p3109" and not facts["signed"]:
            facts["nan"] = "highest"  # as numfmt.p3109 has it
        exponent = int(rng.integers(0, 8))
        mantissa = int(rng.integers(0, 8 - exponent))
        try:
            yield numfmt.FloatFormat("custom", exponent, mantissa, int(rng.integers(-3, 40)), kind, **facts)
        except ValueError:
            continue


@test
def custom_formats_are_those_of_numfmt(browser: Browser) -> int:
    """Every code and rounding of random formats that nobody has built."""
    browser.open("explorer/formats.html")
    assert browser.run("return Formats.MODES") == list(MODES)
    assert browser.run("return Object.keys(Formats.KINDS)") == list(numfmt.formats.KINDS)
    rng = np.random.default_rng(0)
    script = """
        const [e, m, b, kind, facts, numbers, mode] = arguments;
        const f = new Formats.Format("custom", e, m, b, kind, facts);
        const shown = (code) => {
          const d = f.decode(code);
          return d.kind === "finite" ? `${d.value.n}/${d.value.d}` : `${d.kind} ${d.negative}`;
        };
        const codes = Array.from({ length: 2 ** f.bits }, (_, c) => BigInt(c));
        const finite = codes.filter((c) => f.decode(c).kind === "finite");
        return {
          values: codes.map(shown),
          steps: finite.map((c) => [-1, 1].map((s) => f.neighbour(c, s)).map((n) => (n === null ? null : shown(n)))),
          rounded: numbers.map((x) => shown(f.encode(Exact.fromNumber(x), mode))),
        };"""

    def text(value: float) -> str:
        if not np.isfinite(value):
            return f"{'nan' if np.isnan(value) else 'infinity'} {str(bool(value < 0)).lower()}"
        exact = Fraction(float(value))
        return f"{exact.numerator}/{exact.denominator}"

    checked = 0
    for fmt in custom_formats(rng, 300):
        mode = str(rng.choice(MODES))
        values = fmt.finite_values()
        numbers = np.concatenate([rng.choice(values, 20) * rng.uniform(0.3, 1.7, 20), (values[1:] + values[:-1]) / 2])
        numbers = np.concatenate([numbers, -numbers])
        facts = {"signed": fmt.signed, "subnormals": fmt.subnormals, **({"zero": False} if not fmt.zero else {})}
        arguments = (fmt.exponent_bits, fmt.mantissa_bits, fmt.bias, fmt.specials, facts, numbers.tolist(), mode)
        shown = browser.run(script, *arguments)
        for code, (seen, value) in enumerate(zip(shown["values"], fmt.values(), strict=True)):
            # A NaN has no sign that matters.
            assert seen.startswith("nan") if np.isnan(value) else seen == text(value), f"{fmt!r} code {code:#x}: {seen}"
            checked += 1
        finite = [value for value in fmt.values() if np.isfinite(value)]
        for value, (below, above) in zip(finite, shown["steps"], strict=True):
            smaller, larger = values[values < value], values[values > value]
            assert below == (text(smaller[-1]) if smaller.size else None), f"{fmt!r} below {value}"
            assert above == (text(larger[0]) if larger.size else None), f"{fmt!r} above {value}"
            checked += 2
        for number, seen, value in zip(numbers, shown["rounded"], fmt.round(numbers, mode), strict=True):
            wanted = "nan" if np.isnan(value) else text(value)
            assert seen.startswith(wanted), f"{fmt!r} {mode}: {number!r} to {seen}, not {value}"
            checked += 1
    assert checked > 10_000
    return checked


@test
def numbers_round_as_in_numfmt(browser: Browser) -> int:
    """Random numbers, values and midpoints, in every format and mode."""
    browser.open("explorer/formats.html")
    rng = np.random.default_rng(0)
    checked = 0
    for fmt in numfmt.FORMATS.values():
        low, high = max(fmt.emin - 3 - fmt.mantissa_bits, -1060), min(fmt.emax + 2, 1022)
        numbers = rng.standard_normal(300) * 2.0 ** rng.uniform(low, high, 300)
        if fmt.bits <= 16:
            values = fmt.finite_values()
            picked = rng.integers(0, values.size - 1, 300)
            numbers = np.concatenate([numbers, values[picked], (values[picked] + values[picked + 1]) / 2, [0.0, -0.0]])
        script = """
            const f = Formats.Format.named(arguments[0]);
            return arguments[1].map((x, i) =>
              f.encode(Exact.fromNumber(x), arguments[2], arguments[3][i]).toString());"""
        for mode in MODES:
            shown = browser.run(script, fmt.name, numbers.tolist(), mode, np.signbit(numbers).tolist())
            expected = fmt.encode(numbers, mode)
            for number, text, code in zip(numbers, shown, expected, strict=True):
                assert int(text) == int(code), f"{fmt.name} {mode}: {number!r} to {text}, not {code}"
                checked += 1
    return checked


@test
def neighbours_and_ulps_are_those_of_numfmt(browser: Browser) -> int:
    """Every finite code of the formats of at most 8 bits."""
    browser.open("explorer/formats.html")
    checked = 0
    script = """
        const f = Formats.Format.named(arguments[0]);
        const q = (c) => { const v = f.decode(c).value; return `${v.n}/${v.d}`; };
        const codes = Array.from({ length: 2 ** f.bits }, (_, c) => BigInt(c));
        return codes.filter((c) => f.decode(c).kind === "finite").map(
          (c) => [-1, 1].map((step) => f.neighbour(c, step)).map((n) => (n === null ? null : q(n))).concat(
            [q(c), `${f.ulp(c).n}/${f.ulp(c).d}`]));"""
    for fmt in numfmt.FORMATS.values():
        if fmt.bits > 8:
            continue
        values = fmt.finite_values()
        for below, above, here, ulp in browser.run(script, fmt.name):
            value = Fraction(here)
            smaller, larger = values[values < float(value)], values[values > float(value)]
            assert (None if below is None else Fraction(below)) == (
                Fraction(float(smaller[-1])) if smaller.size else None
            )
            assert (None if above is None else Fraction(above)) == (Fraction(float(larger[0])) if larger.size else None)
            assert Fraction(ulp) == Fraction(float(fmt.ulp(float(value))))
            checked += 1
    return checked


@test
def sums_are_those_of_numfmt(browser: Browser) -> int:
    """Random sums in every order the player has."""
    browser.open("explorer/sums.html")
    rng = np.random.default_rng(0)
    script = """
        const f = Formats.Format.named(arguments[0]);
        return arguments[1].map((row) => {
          const s = Summation.steps(row.map(Exact.fromNumber), f, { order: arguments[2], mode: arguments[3] }).result;
          return `${s.n}/${s.d}`;
        });"""
    parameters: dict[str, dict[str, int]] = {"lanes": {"lanes": 4}, "blocked": {"block": 4}}
    orders = browser.run("return Summation.ORDERS")
    assert len(orders) == 5
    checked = 0
    for fmt in (numfmt.BF16, numfmt.FP16, numfmt.FP32, numfmt.FP8_E4M3):
        for order in orders:
            for mode in MODES:
                terms = fmt.round(rng.standard_normal((8, 13)))
                shown = browser.run(script, fmt.name, terms.tolist(), order, mode)
                expected = numfmt.accumulate(terms, fmt, mode, method=order, **parameters.get(order, {}))
                for text, value in zip(shown, expected, strict=True):
                    assert Fraction(text) == Fraction(float(value)), f"{fmt.name} {order} {mode}: {text}, not {value}"
                    checked += 1
    return checked


@test
def payloads_are_those_of_fpsan_tools(browser: Browser) -> int:
    """Random payloads under every operation, in every type and version."""
    browser.open("explorer/payloads.html")
    rng = np.random.default_rng(0)
    script = """
        const [type, version, op, X, Y, Z] = arguments;
        const r = new Payloads.Algebra(type, version);
        return X.map((x, i) => {
          const [a, b, c] = [x, Y[i], Z[i]].map(BigInt);
          if (op.startsWith("to ")) return r.cast(a, op.slice(3)).toString();
          if (op === "fma") return r.fma(a, b, c).toString();
          if (["embed", "unembed"].includes(op)) return r[op](a).toString();
          return (Payloads.BINARY.includes(op) ? r[op](a, b) : r.unary(op, a)).toString();
        });"""
    binary, unary = browser.run("return Payloads.BINARY"), browser.run("return Payloads.UNARY")
    types = browser.run("return Object.keys(Payloads.TYPES)")
    names = {"min": "minimum", "max": "maximum"}
    checked = 0
    for version in browser.run("return Payloads.VERSIONS"):
        rules = algebra.get(version)
        for kind in types:
            width = algebra.float_type(kind).bits
            x, y, z = rng.integers(0, 2**width, (3, 100), dtype=f"uint{width}", endpoint=False)
            expected: dict[str, Any] = {"embed": rules.embed(x, kind), "unembed": rules.unembed(x, kind)}
            expected |= {op: getattr(rules, names.get(op, op))(x, y) for op in binary}
            expected |= {op: rules.unary(op, x) for op in unary}
            expected |= {f"to {other}": rules.cast(x, other) for other in types}
            expected["fma"] = rules.fma(x, y, z)
            operands = [[str(int(v)) for v in row] for row in (x, y, z)]
            for op, values in expected.items():
                for text, value in zip(browser.run(script, kind, version, op, *operands), values, strict=True):
                    assert int(text) == int(value), f"{version} {kind} {op}: {text}, not {value}"
                    checked += 1
    return checked


@test
def identities_hold_where_the_rule_table_says(browser: Browser) -> int:
    """Both sides of every identity of the calculator, against the formulas of the reference page."""
    browser.open("explorer/payloads.html")
    script = """
        const [type, version, index, X, Y, Z] = arguments;
        const r = new Payloads.Algebra(type, version);
        const format = Formats.Format.named(r.format);
        const number = (value) => r.embed(format.encode(Exact.fromNumber(value)));
        const sides = Payloads.IDENTITIES[index].slice(1);
        const shown = (operands) => sides.map((side) => side(r, ...operands.map(BigInt), number).toString());
        return X.map((x, i) => shown([x, Y[i], Z[i]]));"""
    written = browser.run("return Payloads.IDENTITIES.map(([text]) => text)")
    known = {identity.text: identity for identity in site_rules.IDENTITIES}
    assert set(written) <= set(known), f"not in the rule table: {set(written) - set(known)}"
    rng = np.random.default_rng(0)
    checked = 0
    for index, text in enumerate(written):
        identity = known[text]
        for version in browser.run("return Payloads.VERSIONS"):
            for kind in browser.run("return Object.keys(Payloads.TYPES)"):
                width = algebra.float_type(kind).bits
                x, y, z = rng.integers(0, 2**width, (3, 40), dtype=f"uint{width}", endpoint=False)
                rules = algebra.get(version)
                trial = site_rules.Trial(rules, kind, *(site_rules.Term(rules, operand) for operand in (x, y, z)))
                sides = [np.broadcast_to(side(trial).payload, x.shape) for side in (identity.left, identity.right)]
                shown = browser.run(script, kind, version, index, *([str(int(v)) for v in row] for row in (x, y, z)))
                for seen, expected in zip(shown, zip(*sides, strict=True), strict=True):
                    assert [int(v) for v in seen] == [int(v) for v in expected], f"{text} in {kind} of {version}"
                    checked += 2
    return checked


@test
def decimals_and_fractions_are_read_exactly(browser: Browser) -> int:
    """What a reader may type, and what may not be read as a number."""
    browser.open("explorer/formats.html")
    readable = {
        "0.1": Fraction(1, 10),
        "-1.5e-3": Fraction(-3, 2000),
        "1/3": Fraction(1, 3),
        "2^-10": Fraction(1, 1024),
        "-2^(3)": Fraction(-8),
        ".5": Fraction(1, 2),
        "12345678901234567890": Fraction(12345678901234567890),
        "1e400": Fraction(10**400),
        "−2": Fraction(-2),
    }
    script = "const v = Exact.parse(arguments[0]); return v ? `${v.n}/${v.d}` : null;"
    for text, value in readable.items():
        assert Fraction(browser.run(script, text)) == value, text
    for text in ("", "abc", "1/0", "1//2", "1e99999", "0x10", "--1", "1.2.3", "NaN"):
        assert browser.run(script, text) is None, text
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal(300) * 2.0 ** rng.uniform(-300, 300, 300)).tolist()
    shown = browser.run("return arguments[0].map((x) => Exact.decimal(Exact.fromNumber(x)))", numbers)
    for number, text in zip(numbers, shown, strict=True):
        # 17 digits, or all of them, name a double.
        assert float(text.removeprefix("≈ ")) == number, f"{number!r} is shown as {text}"
    back = browser.run("return arguments[0].map((x) => Exact.toNumber(Exact.fromNumber(x)))", numbers)
    assert back == numbers
    return len(readable) + 9 + 2 * len(numbers)


# The explorer's controls.


@test
def the_format_explorer_answers(browser: Browser) -> int:
    """Bits, all three notations, neighbours, keyboard, custom formats and the URL."""
    browser.open("explorer/formats.html#f=FP8_E4M3&c=3c")
    assert browser.value("hex") == "0x3C"
    assert browser.value("decimal") == "1.5"
    assert browser.value("fraction") == "3/2"
    bits = browser.part("bits").find_elements(By.TAG_NAME, "button")
    assert "".join(bit.text for bit in bits) == "00111100"
    bits[0].click()
    assert browser.value("decimal") == "-1.5"
    bits[0].send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    browser.driver.switch_to.active_element.send_keys(Keys.SPACE)
    assert browser.value("hex") == "0xFC", "the second bit was reached by arrow keys and toggled by the space bar"
    browser.fill("decimal", "0.1")
    assert browser.value("hex") == f"{int(numfmt.FP8_E4M3.encode(0.1)):#04X}".replace("X", "x")
    assert "0.1 is not a value" in browser.part("status").text
    browser.fill("fraction", "1/4")
    assert browser.value("decimal") == "0.25"
    assert "is a value" in browser.part("status").text
    browser.fill("hex", "7f")
    assert browser.value("decimal") == "NaN"
    browser.fill("hex", "zz")
    assert browser.part("hex").get_attribute("aria-invalid") == "true"
    browser.fill("hex", "7e")
    assert browser.value("decimal") == "448"
    assert not browser.part("next").is_enabled()
    browser.part("previous").click()
    assert browser.value("decimal") == "416"
    assert "c=7d" in browser.driver.current_url
    browser.choose("format", "FP16")
    assert browser.value("decimal") == "416"
    browser.choose("format", "custom")
    browser.fill("mantissa-bits", "3")
    browser.fill("exponent-bits", "4")
    browser.fill("bias", "8")
    browser.choose("specials", "fnuz")
    assert browser.value("decimal") == "NaN", "416 overflows there"
    address = browser.driver.current_url
    browser.open(address.removeprefix(browser.base))
    assert browser.value("bias") == "8"
    assert browser.value("hex") == "0x80"
    browser.fill("exponent-bits", "99")
    assert "exponent bits" in browser.part("status").text
    browser.fill("exponent-bits", "3")
    browser.choose("specials", "ieee")
    browser.fill("decimal", "0.001")
    assert browser.value("decimal") != "0"
    browser.part("subnormals").send_keys(Keys.SPACE)
    browser.part("signed").click()
    assert "n=1" in browser.driver.current_url
    assert "u=1" in browser.driver.current_url
    assert browser.text_of("bits").count("\n") == 5, "three exponent and three mantissa bits, no sign"
    browser.fill("decimal", "-1")
    assert browser.value("hex") == "0x00", "an unsigned format ends at 0"
    browser.choose("specials", "scale")
    assert not browser.part("signed").is_enabled(), "a scale has no sign"
    address = browser.driver.current_url
    browser.open(address.removeprefix(browser.base))
    assert browser.value("specials") == "scale"
    return 26


@test
def everything_is_reached_by_the_keyboard(browser: Browser) -> int:
    """The tab key visits every control of each page, in their order, and keys alone work them."""
    script = """
        return [...document.querySelectorAll(".explorer :is(a, button, input, select, textarea, [tabindex])")]
          .filter((e) => !e.disabled && e.offsetParent !== null).map((e, i) => (e.dataset.order = String(i)));"""
    here = "const e = document.activeElement; return e.closest('.explorer') ? e.dataset.order : null;"
    checked = 0
    for page in ("formats", "sums", "payloads"):
        browser.open(f"explorer/{page}.html")
        wanted = browser.run(script)
        assert len(wanted) >= 6
        browser.run("document.querySelector('.explorer [data-order=\"0\"]').focus()")
        visited = [browser.run(here)]
        for _ in wanted[1:]:
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            visited.append(browser.run(here))
        assert visited == wanted, f"{page}: the tab key goes {visited}"
        outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{page}: the focus does not show"
        checked += len(wanted) + 1
    browser.open("explorer/sums.html#p=serial&i=3")
    for keys, step in ((Keys.ARROW_DOWN, "4 of 16"), (Keys.ARROW_UP * 2, "2 of 16"), (Keys.END, "16 of 16")):
        browser.part("scroll").send_keys(keys)
        assert f"step {step}" in browser.text_of("title")
    browser.part("forward")
    browser.part("back").send_keys(Keys.ENTER)
    assert "step 15 of 16" in browser.text_of("title")
    browser.part("slider").send_keys(Keys.ARROW_LEFT)
    assert "step 14 of 16" in browser.text_of("title")
    return checked + 5


@test
def the_explorer_speaks_chinese(browser: Browser) -> int:
    """The same pages in Chinese: labels, messages and state."""
    browser.open("zh/explorer/formats.html#f=FP8_E4M3&c=3c")
    assert "正规数" in browser.text_of("facts")
    browser.fill("decimal", "0.1")
    assert "不是该格式的值" in browser.text_of("status")
    browser.open("zh/explorer/sums.html#p=lanes&i=2")
    assert browser.text_of("title").startswith("第 2 步，共 19 步")
    browser.open("zh/explorer/payloads.html")
    assert "成立" in browser.text_of("identities")
    return 4


@test
def both_kernels_are_presets_that_differ(browser: Browser) -> int:
    """The same products in the two kernels' orders, one a chain and one in lanes, give other bits and one exact sum."""
    found = {}
    for preset in ("serial", "lanes"):
        browser.open(f"explorer/sums.html#p={preset}&i=16")
        cells = [cell.text for cell in browser.part("outcome").find_elements(By.TAG_NAME, "td")]
        found[preset] = cells
        terms = browser.value("terms").split()
        assert len(terms) == 16
    assert found["serial"][0] != found["lanes"][0]
    assert found["serial"][1] == found["lanes"][1]
    pairs = np.array([[float(factor) for factor in term.split("*")] for term in terms])
    x, y = numfmt.BF16.round(pairs).T
    for preset, options in (("serial", {}), ("lanes", {"method": "lanes", "lanes": 4})):
        # Products of two BF16 numbers are exact in float64, and each enters its sum by one rounding.
        expected = numfmt.accumulate((x * y)[None], numfmt.BF16, **{"method": "sequential", **options})
        assert Fraction(found[preset][0]) == Fraction(float(expected[0])), preset
    return 5


@test
def the_summation_player_plays(browser: Browser) -> int:
    """Presets, steps, slider, own terms, refusals and the URL."""
    browser.open("explorer/sums.html")
    rows = browser.part("steps").find_elements(By.TAG_NAME, "tr")
    assert len(rows) == 16
    assert browser.part("title").text.startswith("step 1 of 16")
    browser.part("forward").click()
    assert browser.part("title").text.startswith("step 2 of 16")
    browser.part("last").click()
    assert not browser.part("forward").is_enabled()
    browser.part("slider").send_keys(Keys.HOME)
    assert browser.part("title").text == "before the first step"
    browser.choose("preset", "lanes")
    assert len(browser.part("steps").find_elements(By.TAG_NAME, "tr")) == 16 + 3
    results = {}
    for preset in ("stagnation", "cancellation", "kahan"):
        browser.choose("preset", preset)
        results[preset] = browser.part("outcome").find_elements(By.TAG_NAME, "td")[0].text
    assert results["stagnation"] == "256"
    terms = numfmt.FP16.round(np.array([[3000, 0.7, 0.7, 0.7, -3000, 0.7]]))
    for preset, method in (("cancellation", "sequential"), ("kahan", "kahan")):
        assert float(results[preset]) == float(numfmt.accumulate(terms, numfmt.FP16, method=method)[0]), preset
    browser.fill("terms", "1 2 1/3 0.5*0.5")
    browser.choose("format", "FP32")
    browser.choose("order", "sequential")
    assert len(browser.part("steps").find_elements(By.TAG_NAME, "tr")) == 4
    outcome = browser.part("outcome").find_elements(By.TAG_NAME, "td")[0].text
    expected = np.float32(np.float32(3) + np.float32(1 / 3)) + np.float32(0.25)
    assert float(outcome.removeprefix("≈ ")) == float(expected)
    address = browser.driver.current_url
    browser.open(address.removeprefix(browser.base))
    assert browser.value("terms") == "1 2 1/3 0.5*0.5"
    browser.fill("terms", "1 two")
    assert '"two"' in browser.part("status").text
    browser.fill("terms", "1e38 3e38")
    assert "leaves the finite numbers" in browser.part("status").text
    return 15


@test
def the_payload_calculator_calculates(browser: Browser) -> int:
    """Operands, operations, identities and the URL."""
    rules = algebra.get("3.9")
    browser.open("explorer/payloads.html")
    x, y = (int(rules.embed(np.array([value], np.float32), "fp32")[0]) for value in (0.1, 0.2))
    assert f"{x:#010X}".replace("X", "x", 1) in browser.part("x-shown").text
    results = [cell.text for cell in browser.part("results").find_elements(By.TAG_NAME, "td")]
    assert results[0] == f"0x{(x + y) % 2**32:08X}"
    identities = browser.part("identities").find_elements(By.TAG_NAME, "tr")
    assert [row.get_attribute("class") for row in identities].count("fails") == 3
    browser.choose("type", "bf16")
    browser.choose("version", "3.8")
    browser.choose("op", "to fp32")
    browser.fill("x", "-0x")
    assert browser.part("x").get_attribute("aria-invalid") is not None
    browser.fill("x", "0x4000")
    shown = browser.part("x-shown").text
    assert shown.startswith("2 ")
    older = algebra.get("3.8")
    narrow = older.embed(np.array([0x4000], np.uint16), "bf16")
    results = [cell.text for cell in browser.part("results").find_elements(By.TAG_NAME, "td")]
    assert results[0] == f"0x{int(older.cast(narrow, 'fp32')[0]):08X}"
    address = browser.driver.current_url
    browser.open(address.removeprefix(browser.base))
    assert browser.value("x") == "0x4000"
    assert browser.part("x-shown").text == shown
    return 9


# Running.


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site on a free port of this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


@contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """Headless Chromium, with logs of its console and its requests."""
    binary = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver_path = shutil.which("chromedriver")
    if not binary or not driver_path:
        missing = "Chromium" if not binary else "chromedriver"
        raise SystemExit(
            f"browser_tests: {missing} is not installed: apt-get install chromium chromium-driver, or the like"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
        "--lang=en",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    try:
        yield driver
    finally:
        driver.quit()


def main(arguments: list[str] | None = None) -> int:
    """Run the tests; 0 when all pass, 1 when one fails, 2 when there is no site."""
    parser = argparse.ArgumentParser(description="Test a built site in headless Chromium.")
    parser.add_argument("site", type=Path, help="folder that `mkdocs build` made")
    parser.add_argument("names", nargs="*", help="run the tests whose names contain one of these")
    options = parser.parse_args(arguments)
    site: Path = options.site.resolve()
    if not (site / "index.html").exists():
        print(f"browser_tests: {site} holds no site: build it first", file=sys.stderr)
        return 2
    chosen = [t for t in TESTS if not options.names or any(name in t.__name__ for name in options.names)]
    passed = failed = 0
    with served(site) as base, started() as driver:
        for function in chosen:
            start = time.perf_counter()
            try:
                count = function(Browser(driver, base, site))
            except Exception:
                failed += 1
                print(f"FAILED {function.__name__}\n{traceback.format_exc()}")
            else:
                passed += 1
                print(f"passed {function.__name__}: {count:,} checks, {time.perf_counter() - start:.1f} s", flush=True)
    print(f"browser: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
