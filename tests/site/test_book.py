"""The book: its order, its links and pages of files, and what a built site is checked for."""

import base64
import gzip
import hashlib
import http.client
import json
import subprocess
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
from bench_page import serving

from labkit.course.lab import ROOT, find_labs
from labkit.course.markdown import headings, relink, slug
from labkit.errors import LabkitError, UsageError
from labkit.publish.site import command, frontend
from labkit.publish.site.book import Book, read_book
from labkit.publish.site.checks import Page, check_site, page_bytes
from labkit.publish.site.command import MADE_OF, build, run
from labkit.publish.site.files import file_page, line_anchor
from labkit.publish.site.generator import generate
from labkit.publish.site.polish import mark_outward, policy, polish, squeeze, unescape_bars
from labkit.publish.site.serve import make_server
from labkit.publish.withheld import check_withheld

PHASE = "phase-77-words"
FACTS = 'title = "T"\nsummary = "S"\ntime = "1 min"\ndifficulty = "1 of 5"\nprerequisites = "x"\n'
TASK = '[[task]]\ntitle = "t"\n'


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def course(tmp_path):
    """A repository of three labs on two tracks; lab 02 comes first."""
    labs = {"02-two": (1, "core"), "01-one": (2, "core"), "03-three": (3, "advanced")}
    for name, (place, track) in labs.items():
        folder = f"{PHASE}/labs/lab-{name}"
        write(tmp_path, {
            f"{folder}/course/lab.toml": f'{FACTS}place = {place}\ntrack = "{track}"\n{TASK}',
            f"{folder}/README.md": f"# Lab {name[:2]}: {name[3:]}\n\n## Goal\n\nx\n",
        })  # fmt: skip
    write(tmp_path, {
        "README.md": f"# Start\n\n[phase]({PHASE}/README.md#own-part)\n",
        f"{PHASE}/README.md": (
            "# Phase 77\n\n[own](#own-part), [all](#all)\n\n## All\n\nx\n\n"
            "<!-- page -->\n## Own part\n\n[up](#all)\n\n### Deep\n\ny\n\n## Rest\n\nz\n"
        ),
        "upstream/README.md": "# Map\n\n[code](../engine/stop.py#L12), [all](../engine)\n",
        "engine/stop.py": '"""Stop."""\n',
    })  # fmt: skip
    return tmp_path


def places(nav):
    """The pages of a navigation in reading order."""
    for row in nav:
        for value in row.values():
            yield from [value] if isinstance(value, str) else places(value)


# Links


def test_links_are_found_outside_code_only():
    text = "[a](x) `[b](y)` [`c`](z 'no') [d](w \"t\") ![e [f]](v)\n```\n[g](u)\n```\n[h](t)\n"
    seen = []
    made = relink(text, lambda target, is_image: seen.append((target, is_image)) or target.upper())
    assert seen == [("x", False), ("w", False), ("v", True), ("t", False)]
    assert made == text.replace("(x)", "(X)").replace("(w ", "(W ").replace("(v)", "(V)").replace(
        "[h](t)", "[h](T)"
    )


def test_anchors_are_those_of_github():
    names = ["Task 1: utf8_expected_len (10 points)", "`vllm` and [a link](x.md)", "A - b"]
    assert [slug(name) for name in names] == [
        "task-1-utf8_expected_len-10-points", "vllm-and-a-link", "a---b",
    ]  # fmt: skip


def test_a_comment_in_code_is_no_heading():
    text = "# One\n\n```bash\n# no\n```\n\n## Two `x`\n"
    assert [(level, name) for _, level, name in headings(text)] == [(1, "One"), (2, "Two `x`")]


# The book


def test_the_book_follows_the_ladder(course):
    assert [*places(read_book(course).nav)] == [
        "index.md", "phase-77.md", "labs/02.md", "labs/01.md", "phase-77/own-part.md",
        "labs/03.md", "upstream.md",
    ]  # fmt: skip


def test_the_book_of_this_course_has_every_lab_in_order():
    pages = [*places(read_book(ROOT).nav)]
    assert [page for page in pages if page.startswith("labs/")] == [
        f"labs/{lab.number}.md" for lab in find_labs(ROOT)
    ]
    assert len(pages) == len(set(pages))
    assert {"index.md", "upstream.md", "instructors.md", "phase-16/kill-matrix.md"} <= {*pages}


def test_a_section_is_a_page_of_its_own(course):
    pages = read_book(course).pages
    own = pages["phase-77/own-part.md"]
    assert own.startswith("# Own part\n\n[up](../phase-77.md#all)\n\n## Deep\n")
    assert "z" not in own
    assert pages["phase-77.md"] == (
        "# Phase 77\n\n[own](phase-77/own-part.md#own-part), [all](#all)\n\n## All\n\nx\n\n"
        "## Rest\n\nz\n"
    )
    assert pages["index.md"] == "# Start\n\n[phase](phase-77/own-part.md#own-part)\n"


def test_an_issues_number_at_the_begin_of_a_line_is_no_heading(course):
    write(course, {"README.md": "# Start\n\nx (#1,\n#2)\n\n```\n#!/bin/sh\n```\n"})
    text = "# Start\n\nx (#1,\n\\#2)\n\n```\n#!/bin/sh\n```\n"
    assert read_book(course).pages["index.md"] == text


def test_links_to_files_lead_to_pages_of_them(course):
    pages = read_book(course).pages
    assert pages["upstream.md"] == (
        "# Map\n\n[code](files/engine/stop.py.md#__span-0-12), [all](files/engine.md)\n"
    )
    assert '"""Stop."""' in pages["files/engine/stop.py.md"]
    assert "- [`stop.py`](engine/stop.py.md)" in pages["files/engine.md"]


def test_images_come_along(course):
    write(course, {"engine/picture.svg": "<svg/>"})
    write(course, {"upstream/README.md": "# Map\n\n![A picture](../engine/picture.svg)\n"})
    book = read_book(course)
    assert "![A picture](files/engine/picture.svg)" in book.pages["upstream.md"]
    assert book.images == {"files/engine/picture.svg": b"<svg/>"}


@pytest.mark.parametrize(
    "target", ["../engine/stop.txt", "../../elsewhere.md", "/etc/passwd", "../.git"]
)
def test_a_link_that_leads_nowhere_is_named(course, target):
    (course / ".git").mkdir()
    write(course, {"upstream/README.md": f"# Map\n\n[x]({target})\n"})
    with pytest.raises(UsageError) as raised:
        read_book(course)
    told = f"the link to {target} leads to no file of the book"
    assert str(raised.value) == f"upstream/README.md: {told}"


def test_each_lab_has_a_bench_and_comments_are_left_out(course):
    comments = "<!-- full -->\n# Start\n<!-- /full -->\n<!-- edition\nno\n-->\n"
    comments += "<!-- checkout -->\nmake\n<!-- /checkout -->\n"
    write(course, {"README.md": f"{comments}<!-- site\nhere\n-->\n"})
    pages = read_book(course).pages
    assert pages["index.md"] == "# Start\nhere\n"
    assert pages["labs/03.md"].startswith("# Lab 03: three\n\nWrite and run your code on")
    assert '<div id="bench" data-lab="03" data-base="../../bench/"></div>' in pages["labs/03.md"]
    assert '<div id="strip"' not in pages["labs/03.md"], "it has nothing to show"
    shown = read_book(ROOT).pages
    assert '<div id="strip" data-lab="03" data-base="../../bench/"></div>' in shown["labs/03.md"]
    assert '<div id="strip"' not in shown["labs/12.md"]


def test_a_file_stands_in_a_fence_that_it_cannot_end():
    page = file_page("a/b.py", "x = '''\n~~~~\n'''\n")
    assert page.count("\n~~~~~ {.python") == page.count("\n~~~~~\n") == 1
    assert [line_anchor(one) for one in ("L7", "L7-L9", "other")] == ["__span-0-7"] * 2 + [""]


# The pages


def test_the_generator_works_in_a_folder_that_is_named_from_here(tmp_path, monkeypatch):
    pytest.importorskip("zensical", reason="`make site` installs it")
    monkeypatch.chdir(tmp_path)
    book = Book({"index.md": "# Start\n"}, nav=[{"Start": "index.md"}])
    folder = generate(book, "Words", Path("work"))
    assert "Start" in (folder / "index.html").read_text("utf-8")


def test_white_space_of_templates_goes_and_that_of_code_stays():
    code = "<pre><code>a\n\n  b\n</code></pre>"
    script = "<script>\n\n  let x;\n</script>"
    assert squeeze(f"<p>\n   one\n\n two</p>\n  {code} \n {script}\n") == (
        f"<p>\none\ntwo</p>\n{code}\n{script}\n"
    )
    marked = '<pre><span class="k">def</span><span class="w"> </span><span class="n">f</span></pre>'
    assert squeeze(marked) == '<pre><span class="k">def</span> f</pre>'
    numbered = '<pre><span class="linenos" data-linenos="1 "></span>f</pre>'
    assert squeeze(numbered) == '<pre><span data-linenos="1 "></span>f</pre>'


def test_a_bar_in_a_table_has_no_backslash():
    row = r"<td><code>&lt;|im_end\|&gt;</code></td><p><code>a\|b</code></p>"
    assert unescape_bars(row) == r"<td><code>&lt;|im_end|&gt;</code></td><p><code>a\|b</code></p>"


def test_links_that_lead_out_say_so():
    page = '<a href="https://a.org/">A</a> <a href="../b/">B</a> <a href="#c">C</a>'
    marked = mark_outward(page)
    assert marked.count("leads-out") == marked.count("(leads out of this site)") == 1
    assert marked.startswith('<a class="leads-out" rel="external noopener noreferrer" href="https:')
    assert marked.endswith('</a> <a href="../b/">B</a> <a href="#c">C</a>')


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_allows_this_site_and_the_generators_own_words():
    style = "." + "a{color:red}" * 30
    pages = ['<script>one()</script><script src="x.js"></script>', "<script>one()</script>"]
    rules = policy(pages, [f"f('{style}')"])
    assert f"script-src 'self' 'wasm-unsafe-eval' {digest('one()')};" in rules
    assert f"style-src 'self' {digest(style)};" in rules
    assert rules.startswith("default-src 'self';")
    assert "unsafe-inline" not in rules.replace("style-src-attr 'unsafe-inline'", "")
    assert "http" not in rules


def site(folder, body, name="index.html", head=""):
    write(folder, {name: f'<head><meta charset="utf-8">{head}</head><body id="top">{body}</body>'})
    return folder


def test_each_page_gets_the_policy(tmp_path):
    site(tmp_path, "<img src='x.png'><script>f()</script>")
    site(tmp_path, "", "labs/03/index.html")
    polish(tmp_path)
    for name in ("index.html", "labs/03/index.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert f"script-src 'self' 'wasm-unsafe-eval' {digest('f()')}; style-src" in text
        assert text.index("Content-Security-Policy") < text.index("<body")
    assert '<img loading="lazy" src' in (tmp_path / "index.html").read_text("utf-8")


# The checks


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<a href="gone/">x</a>', "index.html: the link to gone/ leads to no page"),
        ('<a href="/b/">x</a>', "index.html: the link to /b/ leads to no page"),
        ('<a href="../x/">x</a>', "index.html: the link to ../x/ leads to no page"),
        ('<a href="b/#no">x</a>', "index.html: the link to b/#no leads to no place on that page"),
        ('<a href="#no">x</a>', "index.html: the link to #no leads to no place on that page"),
        ('<img src="https://a.org/x.png">', "index.html: fetches https://a.org/x.png from another"),
        ('<script src="//a.org/x.js">', "index.html: fetches //a.org/x.js from another host"),
    ],
)
def test_a_broken_page_is_named(tmp_path, body, told):
    site(tmp_path, "", "x/index.html")
    folder = site(tmp_path / "site", "", "b/index.html")
    with pytest.raises(LabkitError, match="the site has faults") as raised:
        check_site(site(folder, body))
    assert told in str(raised.value)


def test_a_folder_that_is_named_from_here_is_checked_like_any_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    site(tmp_path / "site", "", "b/index.html")
    site(tmp_path / "site", '<a href="b/#no">x</a>')
    with pytest.raises(LabkitError, match="the link to b/#no leads to no place on that page"):
        check_site(Path("site"))


def test_a_whole_site_passes(tmp_path):
    site(tmp_path, '<a href="../#top">up</a>', "b/index.html")
    check_site(site(tmp_path, '<a href="b/#top">b</a> <a href="https://a.org">out</a>'))


def test_the_first_view_is_weighed_with_what_scripts_import(tmp_path):
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(12_000))
    write(tmp_path, {"a.js": 'import"./b.js";', "b.js": f"// {noise}"})
    site(tmp_path, "", head='<script src="a.js"></script>')
    page = Page((tmp_path / "index.html").read_text("utf-8"))
    sent = len(gzip.compress(f"// {noise}".encode(), 6))
    assert sent < page_bytes(tmp_path / "index.html", page, tmp_path) < sent + 200
    with pytest.raises(LabkitError, match=r"index.html: the first view loads [\d,]+ bytes"):
        check_site(tmp_path)


def shipped(folder, lab):
    """What is said of a folder with lines of a lab, "" where there are none."""
    files = [(path.name, path.read_bytes()) for path in folder.iterdir()]
    try:
        check_withheld(files, [lab], "the site")
    except LabkitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["py", "json", "html", "zip", "zip in zip"])
def test_a_students_site_gives_no_solution_away(tmp_path, kind):
    lab = next(lab for lab in find_labs(ROOT) if lab.number == "03")
    secret = "".join(f"{line}\n" for line in lab.solution.read_text("utf-8").splitlines()[28:41])
    assert shipped(tmp_path, lab) == ""
    if kind.startswith("zip"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("s.py", secret)
        if kind == "zip in zip":
            with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.write(tmp_path / "a.zip", "a.zip")
            (tmp_path / "a.zip").unlink()
    else:
        quoted = {"json": json.dumps({"a": [secret]}), "html": secret.replace("<", "<b>&lt;</b>")}
        write(tmp_path, {f"a.{kind}": quoted.get(kind, secret)})
    assert "of the reference of lab-03" in shipped(tmp_path, lab)


def test_a_students_site_holds_no_planted_bug(tmp_path):
    lab = next(lab for lab in find_labs(ROOT) if lab.number == "03")
    solution = lab.solution.read_text("utf-8")
    for bug in lab.bugs:
        lines = solution.replace(bug.find, bug.replace, 1).splitlines()
        new = [line for line in lines if line not in solution.splitlines()]
        if not new:
            continue
        at = lines.index(new[0])
        write(tmp_path, {"a.py": "\n".join(lines[at - 1 : at + 4])})
        assert f"of bug {bug.name} of lab-03" in shipped(tmp_path, lab)


# The server


@pytest.fixture
def server(tmp_path):
    folder = site(tmp_path / "site", "x" * 2000)
    write(folder, {"a/index.html": "a", "b.mjs": "1", "c.wasm": "2"})
    polish(folder)
    with serving(folder) as running:
        yield running


def get(server, path, headers=None):
    connection = http.client.HTTPConnection(*server.server_address)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_server_isolates_pages_and_keeps_them_inside(server):
    for path in ("/", "/b.mjs", "/gone"):
        answer, _ = get(server, path)
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; script-")
    assert get(server, "/b.mjs")[0].headers["Content-Type"].startswith("text/javascript")
    assert get(server, "/c.wasm")[0].headers["Content-Type"] == "application/wasm"
    assert get(server, "/a")[0].status == 301
    answer, body = get(server, "/gone")
    assert (answer.status, b'<a href="/">' in body) == (404, True)


def test_the_server_compresses_texts_and_knows_what_has_not_changed(server):
    plain, body = get(server, "/")
    packed, data = get(server, "/", {"Accept-Encoding": "gzip"})
    assert (plain.headers["Content-Encoding"], packed.headers["Content-Encoding"]) == (None, "gzip")
    assert gzip.decompress(data) == body
    since = {"If-Modified-Since": packed.headers["Last-Modified"], "Accept-Encoding": "gzip"}
    assert [get(server, "/", since)[0].status, get(server, "/c.wasm", since)[0].status] == [
        304,
        304,
    ]


def test_a_port_that_is_taken_is_named(server, tmp_path):
    port = server.server_address[1]
    with pytest.raises(UsageError, match=f"port {port} is taken.*--port {port + 1}"):
        make_server(tmp_path / "site", port)


# The command


def test_only_an_older_site_is_replaced(tmp_path):
    write(tmp_path, {"mine/thesis.txt": "x"})
    with pytest.raises(UsageError, match="is not a site that was built here"):
        build(ROOT, tmp_path / "mine", "", student=False)
    assert (tmp_path / "mine/thesis.txt").read_text("utf-8") == "x"
    assert not (tmp_path / "mine" / MADE_OF).exists()


def test_missing_tools_are_named_with_what_installs_them(tmp_path, monkeypatch):
    write(tmp_path, {"site/package-lock.json": "{}"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"node was not found.*apt-get install nodejs npm"):
        frontend.install(Path(tmp_path / "site"))
    for tool, body in (("node", "echo v16.1.0"), ("npm", "true")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / tool).chmod(0o755)
    with pytest.raises(UsageError, match=r"node is 'v16\.1\.0', but must be 18 or newer"):
        frontend.install(Path(tmp_path / "site"))


def test_a_student_edition_says_that_it_makes_no_site(tmp_path):
    args = Namespace(port=8000, edition="full", out=None, serve=True, test=False)
    with pytest.raises(UsageError, match="has no folder site: the whole repository makes the site"):
        run(args, tmp_path)
    with pytest.raises(UsageError, match="--port is 70000, but must be 0 to 65535"):
        run(Namespace(**vars(args) | {"port": 70_000}), ROOT)


# A fresh interpreter that reads what a site is built from, and tells which files it has opened.
READING = """
import sys
from pathlib import Path
from labkit.course.lab import ROOT
from labkit.publish.site.bench import write_bench
from labkit.publish.site.book import read_book
opened = set()
sys.addaudithook(lambda event, args: opened.add(args[0]) if event == "open" else None)
read_book(ROOT)
write_bench(ROOT, ROOT, Path(sys.argv[1]))
print(*sorted(name for name in opened if isinstance(name, str)), sep="\\n")
"""


def test_a_site_is_built_anew_when_anything_changes_that_its_builders_read(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", "-c", READING, tmp_path], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    paths = [ROOT / name for name in done.stdout.splitlines()]
    read = {path for path in paths if path.is_relative_to(ROOT) and path.is_file()}
    read = {path for path in read if not {".venv", "__pycache__"} & {*path.parts}}
    assert len(read) > 100
    assert read - {*command._sources(ROOT)} == set()
