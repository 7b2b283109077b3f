"""Lists the items on rustdoc's pages of a crate, with their declarations, their methods, and the traits
that they implement. The HTML of these pages has not changed for years. If it changes, this script finds
too few lines, and fails."""

import html
import pathlib
import re
import sys

FEWEST = 300  # lines: with fewer, the script fails

# Stable traits that the compiler implements by itself, unless a field prevents it.
AUTO = {"RefUnwindSafe", "Send", "Sync", "Unpin", "UnwindSafe"}

# `#[derive(PartialEq)]` implements this unstable trait, which only the compiler uses.
UNSTABLE = "StructuralPartialEq"

ITEM = re.compile(r'<li><a href="([^"#]+\.html)">')
DECLARATION = re.compile(r'<pre class="rust item-decl"><code>(.*?)</code></pre>', re.S)
OWN = re.compile(
    r'<section id="(method|tymethod|associatedconstant|associatedtype)\.[^"]*"[^>]*>.*?'
    r'<h4 class="code-header">(.*?)</h4>',
    re.S,
)
IMPLEMENTED = re.compile(r'<section id="impl-[^"]*"[^>]*>.*?<h3 class="code-header">(.*?)</h3>', re.S)
# The first heading after the item's own methods.
FOREIGN = re.compile(
    r'<h2 id="(?:deref-methods|trait-implementations|synthetic|blanket|implementors|foreign-impls)[^"]*"'
)


def section(page, name):
    """The part of the page under the heading with this id."""
    found = re.search(rf'<h2 id="{name}"(.*?)(?=<h2 id=|\Z)', page, re.S)
    return found.group(1) if found else ""


def text(markup):
    """The visible text of the markup, on one line."""
    # Each `where` clause and each attribute is in a block of its own.
    markup = re.sub(r"</?div[^>]*>", " ", markup)
    plain = html.unescape(re.sub(r"<[^>]*>", "", markup))
    line = " ".join(plain.split())
    # Long signatures have each argument on a line of its own.
    return line.replace("( ", "(").replace(", )", ")").replace(",)", ")")


def auto(page):
    for line in map(text, IMPLEMENTED.findall(section(page, "synthetic-implementations"))):
        trait = re.search(r"(!?\w+) for ", line)
        if trait and trait.group(1).lstrip("!") in AUTO:
            yield line


def item(path, page):
    name = "::".join([*path.parent.parts, path.name.split(".")[1]])
    own = FOREIGN.split(page, maxsplit=1)[0]
    kind = path.name.split(".")[0]
    yield f"{kind} {name}"
    declaration = text(DECLARATION.search(own).group(1))
    # Leave out the methods of a trait here: they follow below.
    yield f"    {declaration.split(' {')[0] if kind == 'trait' else declaration}"
    methods = [("required " if which == "tymethod" else "") + text(method) for which, method in OWN.findall(own)]
    traits = [text(trait) for trait in IMPLEMENTED.findall(section(page, "trait-implementations"))]
    traits = [trait for trait in traits if UNSTABLE not in trait]
    for line in sorted(methods) + sorted(traits) + sorted(auto(page)):
        yield f"    {line}"


def main(folder):
    paths = sorted(map(pathlib.Path, ITEM.findall((folder / "all.html").read_text())))
    lines = [line for path in paths for line in item(path, (folder / path).read_text())]
    if len(lines) < FEWEST:
        sys.exit(f"only {len(lines)} lines were found: rustdoc's pages have another form than scripts/api.py expects")
    print("\n".join(lines))


main(pathlib.Path(sys.argv[1]))
