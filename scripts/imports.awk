# Finds imports between modules of one parent. Prints a line `PARENT IMPORTER IMPORTED` for each. Reads
# the files of src/. Paths in `use` and in code count, but not paths in comments or in tests at a file's
# end. An import of a re-exported name counts as an import of the module that defines it.

FNR == 1 {
  module()
  root = FILENAME ~ /^src\/bin\// ? "bin" : "crate"
  here = FILENAME
  sub(/^src\/(bin\/[a-z]+\/)?/, "", here)
  sub(/(^|\/)(mod|lib|main)\.rs$|\.rs$/, "", here)
  gsub(/\//, "::", here)
  here = root (here == "" ? "" : "::" here)
}
/^#\[cfg\(test\)\]$/ { marked = 1; next }
marked && /^mod [a-z_]+ \{$/ { tests = 1 }
tests { next }
{
  marked = 0
  sub(/^ *\/\/.*/, "")
  sub(/ \/\/ .*/, "")
  text = text "\n" $0
}

END {
  module()
  for (i = 1; i <= count; i++) edge(from[i], source(to[i]))
  exit bad
}

# Finds all paths in the text of one module.
function module(   statement) {
  while (match(text, /\n *(pub(\([a-z]+\))? )?use [a-z_0-9]+::[^;]*;/)) {
    statement = substr(text, RSTART, RLENGTH)
    text = substr(text, 1, RSTART - 1) "\n" substr(text, RSTART + RLENGTH)
    sub(/^.*use /, "", statement)
    gsub(/[;}\n]/, "", statement)
    use(statement)
  }
  while (match(text, /(crate|super|self)(::[A-Za-z_0-9]+)+/)) {
    note(substr(text, RSTART, RLENGTH))
    text = substr(text, RSTART + RLENGTH)
  }
  text = ""
  marked = tests = 0
}

# Handles one `use`. The statement comes without `use` and without its end: `path::{name, name as
# other`, or `path::name`.
function use(statement,   braces, path, names, i, n, name, target) {
  braces = index(statement, "{")
  path = braces ? substr(statement, 1, braces - 1) : ""
  if (braces) statement = substr(statement, braces + 1)
  if (statement ~ /\{/) {
    print here ": write a `use` for each module, without braces in braces" > "/dev/stderr"
    bad = 1
  }
  n = split(statement, names, ",")
  for (i = 1; i <= n; i++) {
    name = names[i]
    gsub(/^ +| +$/, "", name)
    if (name == "") continue
    target = note(path (name ~ / as / ? substr(name, 1, index(name, " as ") - 1) : name))
    sub(/^.*( as |::)/, "", name)
    if (target != here "::" name) known[here "::" name] = target
  }
}

# Records a path that this module uses. Returns the full path, which begins at the root.
function note(path,   base) {
  base = here
  if (path ~ /^crate::/) base = root
  while (path ~ /^super::/) {
    path = substr(path, 8)
    sub(/::[^:]*$/, "", base)
  }
  sub(/^(crate|self)::/, "", path)
  count++
  from[count] = here
  to[count] = base "::" path
  return to[count]
}

# Returns the path of the definition of the item at `path`.
function source(path,   tries, parts, n, i, prefix, found) {
  for (tries = 0; tries < 8; tries++) {
    n = split(path, parts, "::")
    prefix = ""
    found = 0
    for (i = 1; i <= n; i++) {
      prefix = prefix (i > 1 ? "::" : "") parts[i]
      if (prefix in known) found = length(prefix)
    }
    if (!found) return path
    path = known[substr(path, 1, found)] substr(path, found + 1)
  }
  return path
}

function edge(importer, imported,   a, b, n, m, i, parent) {
  n = split(importer, a, "::")
  m = split(imported, b, "::")
  for (i = 1; i <= n && i <= m && a[i] == b[i]; i++) parent = parent (i > 1 ? "::" : "") a[i]
  if (i <= n && i <= m) print parent, a[i], b[i]
}
