"""The rules of STYLE.md that a program can check, one function each.

Each rule takes a File and yields (rule name, line number, message). A rule
whose finding is a number (lines of a file, of a function) says the number, so
that the ratchet can hold it.
"""

import ast
import collections
import os
import re

import words

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 80
# A torn line of a comment has this many columns left behind the next word.
TORN_COLUMNS = 12

TOP_FOLDERS = ("bench", "datapath", "docs", "packaging", "ras",
               "tests", "third_party", "transport", "verbs")
# No clock, randomness, threads, allocation or output in these.
PURE_FOLDERS = ("transport/",)
PURE_EXCEPTIONS = ("transport/base/check.h",)
DPDK_FOLDERS = ("datapath/", "bench/")
# Their refusals have codes.
CODED_FOLDERS = ("transport/", "datapath/", "verbs/")
# Within the library, only the engine includes these.
CORE_FOLDERS = ("transport/rc/", "transport/uc/", "transport/ud/")
# Headers that take longer to compile than a file of ours, and who includes them:
# the file that all others use instead, and tests that judge by the library.
DOORS = (
    ("CLI/", ("verbs/cli/command_line.cc",)),
    ("nlohmann/", ("ras/facts/facts_json.cc", "ras/facts/facts_json_test.cc",
                   "ras/log/log_target_test.cc")),
    ("toml++/", ("verbs/cli/config_file.cc",)),
)
CODE_SUFFIXES = (".h", ".c", ".cc", ".def")
TEXT_SUFFIXES = CODE_SUFFIXES + (".S", ".py", ".sh", ".bzl", ".bazel", ".md",
                                 ".txt", ".toml", ".map", ".lua")
# Folders of data, and parts of the folder above.
NO_README = re.compile(r"/(testdata|corpus|goldens)(/|$)|^third_party/.|"
                       r"^docs/.|^packaging/.|^tests/scripts/.")

PURE_BANNED = [
    (r"\brte_", "DPDK"),
    (r"infiniband/", "libibverbs"),
    (r"::now\(", "a clock"),
    (r"\babsl::Now\b", "a clock"),
    (r"\bclock_gettime\b", "a clock"),
    (r"\brand\b|\brandom_device\b|\bmt19937", "randomness"),
    (r"\bnew\s+[A-Za-z_:(]", "allocation"),
    (r"\bmalloc\(", "allocation"),
    (r"\bstd::(mutex|thread|condition_variable)\b", "threads"),
    (r"printf\(", "output"),
    (r"\bstd::(cout|cerr|clog)\b", "output"),
]

Finding = collections.namedtuple("Finding", "rule path line message number")


class File:
    """A source file: its path from the root, its text, its code alone."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self._code = None

    @property
    def is_code(self):
        return self.path.endswith(CODE_SUFFIXES)

    @property
    def is_pure(self):
        """Of a pure folder, and not a test or fuzzer of it."""
        stem = os.path.splitext(self.path)[0]
        return (self.path.startswith(PURE_FOLDERS) and
                self.path not in PURE_EXCEPTIONS and
                not stem.endswith(("_test", "_fuzz")))

    @property
    def is_test(self):
        stem = os.path.splitext(self.path)[0]
        return stem.endswith(("_test", "_fuzz")) or "/testing/" in self.path

    @property
    def code(self):
        """The text with comments and literals blanked, line by line alike."""
        if self._code is None:
            self._code = strip_code(self.text)
        return self._code


_TOKEN = re.compile(
    r'(?P<include>^[ \t]*#[ \t]*include[^\n]*)'
    r'|(?P<raw>R"(?P<delimiter>[^()\\ ]{0,16})\(.*?\)(?P=delimiter)")'
    r'|(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')",
    re.DOTALL | re.MULTILINE)


def strip_code(text):
    def blank(match):
        if match.group("include"):
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))
    return _TOKEN.sub(blank, text)


def finding(rule, f, line, message, number=None):
    return Finding(rule, f.path, line, message, number)


def check_pure(f):
    if not f.is_code or not f.is_pure:
        return
    for i, line in enumerate(f.code.split("\n"), 1):
        for pattern, what in PURE_BANNED:
            if re.search(pattern, line):
                yield finding("pure", f, i, "a pure folder must not use " +
                              what + ": " + line.strip())


def check_dpdk(f):
    if not f.is_code or f.path.startswith(DPDK_FOLDERS):
        return
    for i, line in enumerate(f.lines, 1):
        if re.match(r'\s*#\s*include\s*[<"]rte_', line):
            yield finding("dpdk", f, i,
                          "only datapath/ and bench/ may include " +
                          line.split()[-1])


_BRACKETED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)', re.MULTILINE)


def check_doors(f):
    """A heavy header has a door: the others include that."""
    if not f.is_code:
        return
    for match in _BRACKETED.finditer(f.text):
        for start, doors in DOORS:
            if match.group(1).startswith(start) and f.path not in doors:
                line = f.text.count("\n", 0, match.start()) + 1
                yield finding("door", f, line, "only %s may include %s" %
                              (", ".join(doors), match.group(1)))


def check_door_paths(paths):
    for _, doors in DOORS:
        for path in doors:
            if path not in paths:
                yield Finding("door", path, 1, "is named in tidy.py, and does "
                              "not exist", None)


def check_refusals(f):
    """Each refused call has a code: ras/errors makes the Status."""
    if not f.is_code or not f.path.startswith(CODED_FOLDERS):
        return
    # Programs say it to a person at once.
    if f.path.startswith(("verbs/cli/", "verbs/perf/")) or f.is_test:
        return
    for number, line in enumerate(f.code.split("\n"), 1):
        if re.search(r"\babsl::[A-Z]\w*Error\(", line):
            yield finding("refusal", f, number,
                          "a Status without a code: use Refusal()")


def check_file_lines(f):
    if f.path.endswith((".md", ".txt")) or len(f.lines) <= FILE_LINES_MAX:
        return
    yield finding("file-lines", f, len(f.lines), "%d lines, limit %d" %
                  (len(f.lines), FILE_LINES_MAX), len(f.lines))


def check_columns(f):
    if not f.is_code:
        return
    worst, at = 0, 0
    for i, line in enumerate(f.lines, 1):
        if len(line) > COLUMNS_MAX and not line.startswith("#include"):
            if len(line) > worst:
                worst, at = len(line), i
    if worst:
        yield finding("columns", f, at, "%d columns, limit %d" %
                      (worst, COLUMNS_MAX), worst)


def check_whitespace(f):
    for i, line in enumerate(f.lines, 1):
        if "\t" in line:
            yield finding("tab", f, i, "a tab")
        if line != line.rstrip():
            yield finding("trailing", f, i, "white space at the end")


def check_words(f):
    for i, line in enumerate(f.lines, 1):
        # The words are split, or this line would be found.
        if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", line):
            yield finding("todo", f, i, "unfinished: " + line.strip())
        if re.search(r"(^|[^A-Za-z0-9_.$}/])/(wo" r"rk|tm" r"p)/", line):
            yield finding("machine-path", f, i,
                          "a path of one machine: " + line.strip())


def check_guard(f):
    if not f.path.endswith(".h"):
        return
    if not re.search(r"^#pragma once$", f.text, re.MULTILINE):
        yield finding("guard", f, 1, "no #pragma once")


_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum)\b|"
                        r'extern\s*$')


def check_function_lines(f):
    """Rough: a brace at namespace or class level whose head has a ')'."""
    if not f.path.endswith((".h", ".c", ".cc")):
        return
    stack = []
    head, head_line, line = "", 1, 1
    worst = None
    # Braces in preprocessor lines and their continuations do not count.
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda m: "\n" * m.group(0).count("\n"), f.code,
                  flags=re.MULTILINE)
    for ch in code:
        if ch == "\n":
            line += 1
        if ch == "{":
            outer = all(kind == "container" for kind, _ in stack)
            parameters = re.sub(r"<[^<>]*>", "", head)
            if outer and _CONTAINER.search(parameters.split("(")[0]):
                kind = "container"
            elif outer and ")" in head and not re.search(r"=\s*$", head):
                kind = "function"
            else:
                kind = "block"
            stack.append((kind, head_line))
        elif ch == "}" and stack:
            kind, start = stack.pop()
            length = line - start + 1
            if kind == "function" and length > FUNCTION_LINES_MAX:
                if worst is None or length > worst[1]:
                    worst = (start, length)
        if ch in "{};":
            head = ""
        elif head or not ch.isspace():
            if not head:
                head_line = line
            head += ch
    if worst:
        yield finding("function-lines", f, worst[0], "%d lines, limit %d" %
                      (worst[1], FUNCTION_LINES_MAX), worst[1])


# A line that is only a comment, but not a citation.
_COMMENT_LINE = re.compile(r"( *)//( +)(\S.*)$")
_ITEM = re.compile(r"([-*]|\d+[.)]) +")
# Columns, diagrams, grammars, calls and licenses keep their lines.
_LAYOUT = re.compile(r"\S {2,}\S|[|│├└─▲▼]|-{3,}|:=|^[\w:]+\([^()]*\)$|"
                     r"^(Copyright|SPDX)")
_SENTENCE_END = re.compile(r"""[.:;?!]["'`)]*$""")
_FIRST_WORD = re.compile(r"`[^`]*`\S*|\S+")


class CommentLine:
    """A line of a comment. `before`: the line above if its comment goes on."""

    def __init__(self, line, match, before):
        self.indent, self.gap = match.group(1), len(match.group(2))
        self.text = match.group(3)
        self.before = before
        self.columns = len(line)
        item = _ITEM.match(self.text)
        self.is_item = bool(item)
        # Where the text of a list's item begins, behind the "//".
        self.item_column = (self.gap + item.end() if item else
                            before.item_column if before else 0)

    @property
    def is_prose(self):
        return (not _LAYOUT.search(self.text) and
                (self.is_item or self.gap in (1, self.item_column)))

    @property
    def column(self):
        return self.item_column if self.is_item else self.gap

    def columns_left(self, after):
        """What is left of this line behind the first word of `after`."""
        word = _FIRST_WORD.match(after.text).group(0)
        return COLUMNS_MAX - self.columns - 1 - len(word)

    def ends_before(self, after):
        """It ends early, though its sentence goes on in the line `after`."""
        if (not self.is_prose or not after.is_prose or after.is_item or
                self.column != after.column or _SENTENCE_END.search(self.text)):
            return False
        if self.text.endswith(",") and (after.text.endswith(",") or self.before
                                        and self.before.text.endswith(",")):
            return False  # a list
        return self.columns_left(after) > TORN_COLUMNS

    def has_lost_indent(self, after):
        """Of the item of a list, between two lines that have it."""
        return (self.before is not None and not self.is_item and
                not after.is_item and
                self.before.column == after.gap == self.item_column and
                self.gap < after.gap and self.before.columns_left(self) < 0)


def check_torn_comments(f):
    """Clang-format breaks a line that is too long, and leaves the next as it
    is: the rest of the line remains as a short one."""
    if not f.is_code or f.path.startswith("third_party/"):
        return
    last = None
    for i, line in enumerate(f.lines):
        match = _COMMENT_LINE.match(line)
        if not match:
            last = None
            continue
        if last and last.indent != match.group(1):
            last = None
        this = CommentLine(line, match, last)
        if last and (last.ends_before(this) or last.has_lost_indent(this)):
            yield finding("torn-comment", f, i,
                          "the paragraph goes on in the next line: " +
                          last.text)
        last = this


RULES = (check_pure, check_dpdk, check_doors, check_refusals, check_file_lines,
         check_columns, check_whitespace, check_words, check_guard,
         check_function_lines, check_torn_comments)


# Files of other projects that comments name.
_FOREIGN_FILES = {"verbs.h", "include/rdma/ib.h",
                  "include/rdma/ibta_vol1_c12.h", "rdma/ib_user_verbs.h"}
# Not files: part of an address, and examples of file names.
_NOT_FILES = {"a.b.c", "foo_test.cc", "verbs/a.cc"}
_FILE_NAME = re.compile(
    r"(?<![\w/<.$*}{-])((?:\.\./)*(?:[\w.-]+/)*[\w-][\w.-]*"
    r"\.(?:h|c|cc|S|py|md|sh|bzl|bazel|toml|map|def|pkt|jsonl))"
    r"(?![\w/*{}-])")


def prose_of(f):
    """What a reader reads: comments of code, all of a Markdown file."""
    if f.path.endswith(".md"):
        return f.text
    if f.path.endswith(CODE_SUFFIXES + (".S",)):
        # Replace all but comments by blanks, which keeps the line numbers.
        return "".join(
            m.group(0) if m.group("comment") else
            re.sub(r"[^\n]", " ", m.group(0))
            for m in re.finditer(_TOKEN.pattern + r"|[^\n]|\n", f.text,
                                 re.DOTALL | re.MULTILINE))
    mark = "--" if f.path.endswith(".lua") else "#"
    return "\n".join(line.partition(mark)[2] for line in f.lines)


def check_named_files(f, endings):
    """A file that a comment or README names exists. `endings`: of all paths,
    at each slash."""
    for i, line in enumerate(prose_of(f).split("\n"), 1):
        for match in _FILE_NAME.finditer(line):
            name = re.sub(r"^(\.\./)+", "", match.group(1))
            if name in endings or name in _FOREIGN_FILES | _NOT_FILES:
                continue
            yield finding("named-file", f, i, name + " does not exist")


def endings_of(paths):
    endings = set()
    for path in paths:
        parts = path.split("/")
        endings.update("/".join(parts[i:]) for i in range(len(parts)))
    return endings


def check_file(path, text):
    f = File(path, text)
    return [found for rule in RULES for found in rule(f)]


def check_readmes(paths):
    """Every folder that has files says what lives there."""
    folders = {os.path.dirname(p) for p in paths}
    for folder in sorted(folders):
        if not folder or NO_README.search(folder):
            continue
        readme = folder + "/README.md"
        if readme not in paths:
            yield Finding("readme", readme, 1, "is missing", None)


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def check_core_reach(texts):
    """The verbs do not see a transport's core, however far down their includes
    are followed: a change there must not compile them again. The command does,
    which reads images of queue pairs. `texts`: the code by its path."""
    seen = {}  # path: the path that includes it; None: a file of the verbs
    waiting = [path for path in texts if path.startswith("verbs/") and
               not path.startswith("verbs/cli/")]
    seen.update((path, None) for path in waiting)
    while waiting:
        path = waiting.pop()
        for name in _INCLUDE.findall(texts[path]):
            if name in seen or name not in texts:
                continue
            seen[name] = path
            waiting.append(name)
    for path in sorted(seen):
        if path.startswith(CORE_FOLDERS):
            way = [path]
            while seen[way[-1]] is not None:
                way.append(seen[way[-1]])
            yield Finding("core-reach", way[-1], 1,
                          "reaches " + " from ".join(way), None)


_MUTATION = re.compile(r"\bMUTATION(?:_SKIPS|_ADDS)?\(\s*(\w+)")
_MUTATION_LIST = "tests/sim/mutation_list.bzl"


def check_mutations(texts):
    """Each mutation of the code stands in one place and is in the list of those
    that are tested, and the list has no others. `texts`: by path."""
    listed = ast.literal_eval(texts[_MUTATION_LIST].partition(" = ")[2])
    places = {}
    for path, text in sorted(texts.items()):
        if not path.endswith(CODE_SUFFIXES) or "MUTATION" not in text:
            continue
        if path.startswith("transport/base/mutation"):
            continue
        for match in _MUTATION.finditer(File(path, text).code):
            name, line = match.group(1), text.count("\n", 0, match.start()) + 1
            if name in places:
                yield Finding("mutation", path, line, name + " is also in " + places[name], None)
            elif not any(name in names for names in listed.values()):
                yield Finding("mutation", path, line, name + " is not in " + _MUTATION_LIST, None)
            places[name] = path
    for name in sorted({name for names in listed.values() for name in names} - set(places)):
        yield Finding("mutation", _MUTATION_LIST, 1, "no code has " + name, None)


def source_paths(root):
    """The project's text files, from the root, without what a build leaves."""
    paths = []
    tops = [name for name in os.listdir(root)
            if name in TOP_FOLDERS or name in (".ci",)]
    for name in sorted(os.listdir(root)):
        if os.path.isfile(os.path.join(root, name)):
            if name.endswith(TEXT_SUFFIXES) or name in ("dev", "WORKSPACE"):
                paths.append(name)
    for top in sorted(tops):
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            # bench/results: measurements of `./dev bench`, not checked in.
            subfolders[:] = [s for s in subfolders
                             if s not in ("__pycache__", "results")]
            for name in names:
                paths.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(paths)


def check_tree(root):
    paths = source_paths(root)
    found = list(check_readmes(set(paths))) + list(check_door_paths(paths))
    endings = endings_of(paths)
    code = {}
    texts = {}
    for path in paths:
        if "/testdata/" in path or "/corpus/" in path:
            continue
        if not path.endswith(TEXT_SUFFIXES) and path not in ("dev", ".ci/run"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as handle:
            text = texts[path] = handle.read()
        found += check_file(path, text)
        found += check_named_files(File(path, text), endings)
        if path.endswith(CODE_SUFFIXES):
            code[path] = text
    found += check_core_reach(code)
    found += check_mutations(texts)
    found += [Finding("words", *place, None)
              for place in words.read().check(texts)]
    return found


def read_ratchet(text):
    """Lines of "rule path [number]" -> {(rule, path): number or None}."""
    entries = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            number = int(words[2]) if len(words) > 2 else None
            entries[words[0], words[1]] = number
    return entries


def apply_ratchet(found, ratchet):
    """What is to be reported: new findings, and entries that are too lax."""
    problems = []
    seen = {}
    for item in found:
        key = (item.rule, item.path)
        if key in ratchet:
            limit = ratchet[key]
            seen[key] = max(seen.get(key, 0), item.number or 0)
            if limit is None or (item.number or 0) <= limit:
                continue
        problems.append("%s:%d: [%s] %s" %
                        (item.path, item.line, item.rule, item.message))
    for (rule, path), limit in sorted(ratchet.items()):
        if (rule, path) not in seen:
            problems.append("ratchet.txt: %s %s is no longer needed: remove "
                            "the line" % (rule, path))
        elif limit is not None and seen[rule, path] < limit:
            problems.append("ratchet.txt: %s %s can be lowered to %d" %
                            (rule, path, seen[rule, path]))
    return problems
