"""Lists the items on rustdoc's pages of a crate: each with its declaration, its methods, and the traits
that it implements. The form of these pages has not changed for years. If it changes, this script finds
few lines, and fails."""

import html
import pathlib
import re
import sys

FEWEST = 300  # lines; normally there are far more

# Traits that the compiler implements, until a change prevents that. Other such traits are unstable.
AUTO = {"RefUnwindSafe", "Send", "Sync", "Unpin", "UnwindSafe"}

# Only a derive implements this trait, for itself.
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
    """The text that a reader sees, on one line."""
    # Where clauses and attributes are blocks of their own.
    markup = re.sub(r"</?div[^>]*>", " ", markup)
    plain = html.unescape(re.sub(r"<[^>]*>", "", markup))
    line = " ".join(plain.split())
    # Long signatures have a line for each argument.
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
    # The methods of a trait follow below, so leave them out here.
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
        sys.exit(f"only {len(lines)} lines were found: rustdoc's pages are others than scripts/api.py reads")
    print("\n".join(lines))


main(pathlib.Path(sys.argv[1]))
