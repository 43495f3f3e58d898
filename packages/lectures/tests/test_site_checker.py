"""The site's checker finds planted faults, and passes what is sound."""

from __future__ import annotations

from pathlib import Path

import pytest

check_site = pytest.importorskip("check_site", reason="the checker belongs to the repository, not to the package")

SOUND = {
    "index.html": '<html><head><link rel="stylesheet" href="a/style.css"><link rel="canonical" href="https://example.org/">'
    '</head><body id="top"><a href="sub/page.html#there">x</a><a href="sub/">dir</a><a href="https://example.org/x">out</a>'
    '<a href="#top">up</a><a href="mailto:a@b.c">mail</a><img src="a/pic.svg" srcset="a/pic.svg 2x">'
    '<img src="data:image/png;base64,AAAA"><script>const u = "https://example.org/a-string";</script>'
    "<p>a :class: b, x[0][1], std::vector</p><code>:func:`x` [a][b]</code><pre>:data:`y` [[api z]]</pre></body></html>",
    "sub/page.html": '<h2 id="there">t</h2><a href="../index.html">home</a><a href="/index.html">root</a>',
    "sub/index.html": "<html></html>",
    "a/style.css": '/* url(https://example.org/comment.png) */ @font-face{src:url(font.woff2) format("woff2")}',
    "a/font.woff2": "",
    "a/pic.svg": "<svg/>",
    "a/app.js": "import './other.js'; fetch('data.json');",
}

FAULTS = {
    "dead link": ("index.html", '<a href="gone.html">x</a>', "link to 'gone.html', which is not there"),
    "dead anchor": ("index.html", '<a href="sub/page.html#nowhere">x</a>', "has no anchor 'nowhere'"),
    "dead anchor on the same page": ("index.html", '<a href="#nowhere">x</a>', "has no anchor 'nowhere'"),
    "link out of the site": ("index.html", '<a href="../outside.html">x</a>', "'../outside.html', which is not there"),
    "remote script": ("index.html", '<script src="https://cdn.example.org/a.js"></script>', "from another host"),
    "remote script without scheme": (
        "index.html",
        '<script src="//cdn.example.org/a.js"></script>',
        "from another host",
    ),
    "remote style": ("index.html", '<link rel="stylesheet" href="https://x.example.org/a.css">', "from another host"),
    "remote icon": ("index.html", '<link rel="shortcut icon" href="https://x.example.org/a.ico">', "from another host"),
    "remote image": ("index.html", '<img src="http://x.example.org/a.png">', "from another host"),
    "remote image in a set": ("index.html", '<img srcset="a/pic.svg 1x, https://x.org/a.png 2x">', "from another host"),
    "remote inline style": ("index.html", '<p style="background:url(https://x.org/a.png)">', "from another host"),
    "remote style element": ("index.html", "<style>@import 'https://x.org/a.css';</style>", "from another host"),
    "remote module in a page": ("index.html", "<script>import('https://x.org/a.js')</script>", "from another host"),
    "remote frame": ("index.html", '<iframe src="https://x.org/"></iframe>', "from another host"),
    "missing image": ("index.html", '<img src="a/gone.png">', "loads 'a/gone.png', which is not there"),
    "role": ("index.html", "<p>See :meth:<code>round</code>.</p>", "shows ':meth:'"),
    "role as text": ("index.html", "<p>See :py:func:`round`.</p>", "shows ':py:func:'"),
    "reference to nothing": ("index.html", "<p>See [<code>round</code>][numfmt.round].</p>", "shows '][numfmt.round]'"),
    "mark of a hook": ("index.html", "<p>[[api numfmt]]</p>", "shows '[[api '"),
    "base": ("index.html", '<base href="https://x.org/">', "<base href='https://x.org/'>"),
    "remote font": ("a/style.css", "@font-face{src:url('https://fonts.example.org/a.woff2')}", "from another host"),
    "remote import": ("a/style.css", '@import "//fonts.example.org/a.css";', "from another host"),
    "missing font": ("a/style.css", "@font-face{src:url(gone.woff2)}", "loads 'gone.woff2', which is not there"),
    "remote fetch": ("a/app.js", 'fetch("https://x.org/data.json");', "from another host"),
    "remote import in a script": ("a/app.js", 'import x from "https://x.org/a.js";', "from another host"),
    "remote worker": ("a/app.js", 'new Worker("https://x.org/w.js");', "from another host"),
}


def write_site(folder: Path) -> Path:
    for name, text in SOUND.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "site"


def test_a_sound_site_has_no_fault(tmp_path: Path) -> None:
    site = write_site(tmp_path)
    assert list(check_site.faults(site)) == []
    assert check_site.main([str(site)]) == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(tmp_path: Path, fault: str) -> None:
    site = write_site(tmp_path)
    (tmp_path / "outside.html").write_text("<html></html>")
    name, planted, expected = FAULTS[fault]
    path = site / name
    path.write_text(path.read_text(encoding="utf-8") + planted, encoding="utf-8")
    found = list(check_site.faults(site))
    assert len(found) == 1
    assert found[0].startswith(name)
    assert expected in found[0]
    assert check_site.main([str(site)]) == 1


def test_external_links_are_listed_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = write_site(tmp_path)
    (site / "more.html").write_text('<a href="https://example.org/x">x</a><a href="https://other.org/">y</a>')
    assert check_site.external_links(site) == {"https://example.org/x": 2, "https://other.org/": 1}
    assert check_site.main([str(site)]) == 0
    said = capsys.readouterr().out
    assert "https://example.org/x (2 pages)" in said
    assert "2 external links to 2 hosts, 0 faults" in said


def test_no_site_is_wrong_use(tmp_path: Path) -> None:
    assert check_site.main([str(tmp_path)]) == 2
