#!/usr/bin/env python3
"""Which sections of the standards are implemented, and which of these tested.

A citation is a comment of its own, here in C++; scripts have "#" for "//":

    //= IBTA 9.7.5.1.1: ghost and stale acknowledgements are ignored
    //= RFC 2236 8.10, RFC 2710 7.10: a host repeats its first report

In the code it says that the rule is implemented there. Its words are ours, a
clause that can be understood without the code; they continue in the next line
that starts with the same mark. In a test it says that the test
fails without the rule; there the words may be missing. A section without a
standard is one of the standard before it.

`./dev citations` lists them. docs/conformance.md has the same as tables.
"""

import argparse
import collections
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import tidy  # noqa: E402 (the path must come first)

DOCUMENT = "docs/conformance.md"
BEGIN = "<!-- By `./dev citations --write`: %s -->"
END = "<!-- End. -->"

# What may be cited, by protocol. For IBTA: chapters and annexes.
PROTOCOLS = (
    ("Packets and transport services", (
        ("IBTA 7", "link layer (the ICRC)"),
        ("IBTA 8", "network layer (the GRH)"),
        ("IBTA 9", "transport layer"))),
    ("Queue pairs, memory, partitions", (
        ("IBTA 10", "software transport interface"),)),
    ("Verbs", (
        ("IBTA 11", "software transport verbs"),)),
    ("Extended reliable connections", (
        ("IBTA A14", "XRC"),)),
    ("Flush and atomic write", (
        ("IBTA A19", "memory placement extensions"),)),
    ("RoCE", (
        ("IBTA A16", "RoCE v1"),
        ("IBTA A17", "RoCE v2"))),
    ("Connection management", (
        ("IBTA 12", "communication management"),
        ("IBTA A11", "RDMA IP CM service"))),
    ("Management datagrams", (
        ("IBTA 13", "management model"),
        ("IBTA 15", "subnet administration"),
        ("IBTA 16", "general services"))),
    ("Ethernet", (
        ("IEEE 802.3", "Ethernet"),
        ("IEEE 802.1Q", "VLANs and priorities"))),
    ("IPv4, IPv6 and UDP", (
        ("RFC 768", "UDP"),
        ("RFC 791", "IPv4"),
        ("RFC 1071", "the internet checksum"),
        ("RFC 1122", "requirements for hosts"),
        ("RFC 1624", "changes of a checksum"),
        ("RFC 2464", "IPv6 over Ethernet"),
        ("RFC 2474", "differentiated services"),
        ("RFC 3021", "networks of two addresses"),
        ("RFC 4291", "IPv6 addresses"),
        ("RFC 5722", "fragments that overlap"),
        ("RFC 6724", "choice of a source address"),
        ("RFC 6864", "the identification of IPv4"),
        ("RFC 6946", "fragments that are whole"),
        ("RFC 7739", "identifications of fragments"),
        ("RFC 8200", "IPv6"))),
    ("ARP and neighbour discovery", (
        ("RFC 826", "ARP"),
        ("RFC 4861", "neighbour discovery for IPv6"),
        ("RFC 5227", "conflicts of IPv4 addresses"),
        ("RFC 6980", "neighbour discovery in fragments"))),
    ("ICMP and path MTU", (
        ("RFC 792", "ICMP"),
        ("RFC 1191", "path MTU of IPv4"),
        ("RFC 4443", "ICMPv6"),
        ("RFC 8201", "path MTU of IPv6"))),
    ("Multicast groups", (
        ("RFC 1112", "IGMPv1, multicast"),
        ("RFC 2113", "router alert of IPv4"),
        ("RFC 2236", "IGMPv2"),
        ("RFC 2710", "MLDv1"),
        ("RFC 2711", "router alert of IPv6"),
        ("RFC 3376", "IGMPv3"),
        ("RFC 3810", "MLDv2"))),
    ("Congestion", (
        ("RFC 3168", "ECN"),
        ("RFC 5681", "TCP congestion control"),
        ("RFC 6928", "the initial window"),
        ("RFC 6937", "proportional rate reduction"),
        ("RFC 7661", "windows that are not full"),
        ("RFC 8257", "DCTCP"),
        ("RFC 9406", "HyStart++"),
        ("RFC 9438", "CUBIC"))),
    ("TCP", (
        ("RFC 1337", "hazards of TIME-WAIT"),
        ("RFC 2018", "SACK"),
        ("RFC 2883", "D-SACK"),
        ("RFC 3465", "appropriate byte counting"),
        ("RFC 3522", "Eifel detection"),
        ("RFC 3708", "spurious retransmissions by D-SACK"),
        ("RFC 4821", "path MTU discovery by probes"),
        ("RFC 4987", "SYN floods"),
        ("RFC 5682", "F-RTO"),
        ("RFC 5927", "attacks by ICMP"),
        ("RFC 5961", "blind attacks"),
        ("RFC 6191", "reuse of TIME-WAIT"),
        ("RFC 6298", "the retransmission timer"),
        ("RFC 6528", "initial sequence numbers"),
        ("RFC 6582", "NewReno"),
        ("RFC 6675", "loss recovery by SACK"),
        ("RFC 6994", "experimental options"),
        ("RFC 7323", "timestamps and window scaling"),
        ("RFC 8985", "RACK-TLP"),
        ("RFC 9293", "TCP"),
        ("RFC 9937", "proportional rate reduction, revised"))),
    ("iWARP", (
        ("RFC 5040", "RDMAP"),
        ("RFC 5041", "DDP"),
        ("RFC 5044", "MPA"),
        ("RFC 6581", "enhanced set-up of MPA"),
        ("RFC 7306", "extensions of RDMAP"))),
    ("Where Linux is the standard", (
        ("Linux", "its functions"),)),
)
WITHOUT_SECTIONS = ("RFC 768", "RFC 792", "RFC 826")

_PROTOCOL_OF = {head: number for number, (_, heads) in enumerate(PROTOCOLS)
                for head, _ in heads}
_SUFFIXES = tidy.CODE_SUFFIXES + (".S", ".py", ".sh", ".pkt")
_OWN = "tests/lint/"

# A citation: heads of PROTOCOLS with sections, the text, the place.
Citation = collections.namedtuple("Citation", "sections words path line")
# A section: its head in PROTOCOLS and its name, "IBTA 9" and "9.2.1".
Section = collections.namedtuple("Section", "head name")

_LINE = re.compile(r"^\s*(?://|#|/\*)=\s?(.*?)\s*(?:\*/)?$")
_STANDARD = re.compile(r"(IBTA|RFC \d+|IEEE 802\.\w+|Linux)\b ?(.*)")
_NUMBERS = re.compile(r"(A?\d+|[A-Z])(\.\d+)*$")
_BARE = re.compile(
    r"\bIBTA[\s/*#]+((volume|annex|table|section)\b|[AC]?\d)|\bRFC[-\s/*#]*\d"
    r"|\bIEEE[\s/*#]+802\.\d|\b802\.1Q \d|\b802\.1ad\b"
    r"|\b[Aa]nnex(es)? A\d|\bA1\d\.\d")


def is_test(path):
    return (path.startswith("tests/") or
            os.path.splitext(path)[0].endswith("_test"))


def package_of(path):
    return "/".join(path.split("/")[:2])


def parse_section(text, standard):
    """"RFC 2236 8.10" or, behind another of its standard, "8.10"."""
    match = _STANDARD.match(text)
    if match:
        standard, text = match.groups()
    if standard is None:
        raise ValueError("unknown standard in '%s'" % text)
    head = standard
    if standard == "IBTA":
        # C10-93: a numbered compliance statement of chapter 10.
        demand = re.match(r"[Co](\d+)-\d+(\.\d+)*$", text)
        chapter = demand.group(1) if demand else text.split(".")[0]
        head = "IBTA " + chapter
        good = demand or _NUMBERS.match(text)
    elif standard == "Linux":
        good = re.match(r"[a-z_]\w*\(\)$", text)
    elif standard in WITHOUT_SECTIONS:
        good = not text
    else:
        good = _NUMBERS.match(text)
    if not good:
        raise ValueError("'%s' is not a section of %s" % (text, standard))
    if head not in _PROTOCOL_OF:
        raise ValueError("unknown standard: %s" % head)
    return standard, Section(head, text)


def parse_sections(text):
    sections, standard = [], None
    for part in text.split(","):
        standard, section = parse_section(part.strip(), standard)
        sections.append(section)
    return tuple(sections)


def parse_file(path, text):
    """Its citations, and findings."""
    citations, found = [], []
    open_at = 0  # the line where a citation may continue

    def complain(number, message):
        found.append(tidy.Finding("citation", path, number, message, None))

    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.match(line)
        if not match:
            continue
        body = match.group(1)
        if open_at == number and not _STANDARD.match(body):
            last = citations.pop()
            words = (last.words + " " + body).strip()
            citations.append(last._replace(words=words))
            open_at = number + 1
            continue
        heads, _, words = body.partition(": ")
        try:
            sections = parse_sections(heads.removesuffix(":"))
        except ValueError as error:
            complain(number, str(error))
            continue
        citations.append(Citation(sections, words, path, number))
        open_at = number + 1
    for citation in citations:
        if not citation.words and not is_test(path):
            complain(citation.line, "a citation says the rule in its own words")
    return citations, found


def bare(path, text):
    """Standards that comments name otherwise."""
    text = "\n".join("" if _LINE.match(line) else line
                     for line in text.split("\n"))
    prose = text if path.endswith(".py") else tidy.prose_of(
        tidy.File(path, text))
    for match in _BARE.finditer(prose):
        line = prose.count("\n", 0, match.start()) + 1
        yield tidy.Finding(
            "citation", path, line,
            "'%s': cite it in a line of its own: //= STANDARD SECTION: rule" %
            match.group(0), None)


class Table:
    """All citations, by section."""

    def __init__(self, citations):
        self.rules = collections.defaultdict(list)
        self.code = collections.defaultdict(set)
        self.tests = collections.defaultdict(set)
        self.citations = citations
        for citation in citations:
            test = is_test(citation.path)
            for section in citation.sections:
                places = self.tests if test else self.code
                places[section].add(citation.path)
                words = citation.words.rstrip(".")
                if not test and words not in self.rules[section]:
                    self.rules[section].append(words)

    def sections(self, number):
        """Those of a protocol, in the standards' order."""
        heads = [head for head, _ in PROTOCOLS[number][1]]
        of = [s for s in self.code if s.head in heads]
        return sorted(of, key=lambda s: (
            heads.index(s.head),
            [int(n) for n in re.findall(r"\d+", s.name)], s.name))

    def untested(self):
        """{package: sections}."""
        packages = collections.defaultdict(set)
        for section, paths in self.code.items():
            if section not in self.tests:
                for path in paths:
                    packages[package_of(path)].add(section)
        return packages

    def only_tested(self):
        for citation in self.citations:
            for section in citation.sections:
                if section not in self.code:
                    yield citation, section


def name_of(section):
    """As a citation has it."""
    standard = "IBTA" if section.head.startswith("IBTA ") else section.head
    return (standard + " " + section.name).strip()


def places(paths):
    """Paths for a cell: those of one folder after another."""
    folders = collections.defaultdict(list)
    for path in sorted(paths):
        folders[os.path.dirname(path)].append(os.path.basename(path))
    cells = []
    for folder, names in folders.items():
        if len(names) > 2:
            stems = dict.fromkeys(os.path.splitext(n)[0] for n in names)
            cells.append("`%s/`: %s" % (folder, ", ".join(stems)))
        else:
            cells += ["`%s/%s`" % (folder, name) for name in names]
    return ", ".join(cells)


def summary(table):
    lines = ["| protocol | standards | sections implemented | tested |",
             "|---|---|---|---|"]
    total = tested = 0
    for number, (title, heads) in enumerate(PROTOCOLS):
        sections = table.sections(number)
        good = sum(s in table.tests for s in sections)
        total += len(sections)
        tested += good
        lines.append("| %s | %s | %d | %d |" % (
            title, ", ".join(head for head, _ in heads), len(sections), good))
    lines.append("| all | | %d | %d |" % (total, tested))
    return lines


def details(table):
    lines = []
    for number, (title, heads) in enumerate(PROTOCOLS):
        lines += ["### " + title, "",
                  "; ".join("%s: %s" % head for head in heads) + ".", "",
                  "| section | rule | implemented | tested |",
                  "|---|---|---|---|"]
        for section in table.sections(number):
            lines.append("| %s | %s | %s | %s |" % (
                name_of(section),
                "; ".join(table.rules[section]).replace("|", "\\|"),
                places(table.code[section]),
                places(table.tests.get(section, ())) or "no"))
        lines.append("")
    return lines[:-1]


def filled(document, table):
    """The document with its generated parts as they should be."""
    for name, lines in (("summary", summary(table)),
                        ("tables", details(table))):
        begin = BEGIN % name
        before, found, rest = document.partition(begin)
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError("no '%s' with an end in %s" % (begin, DOCUMENT))
        document = "\n".join([before + begin, ""] + lines +
                             ["", end + after])
    return document


def read_tree(root):
    """{path: text} of what may cite."""
    texts = {}
    for path in tidy.source_paths(root):
        if not path.endswith(_SUFFIXES) or path.startswith(_OWN):
            continue
        if "/testdata/" in path or "/corpus/" in path:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as handle:
            texts[path] = handle.read()
    return texts


def check(texts, document):
    """The table of `texts`, and findings."""
    citations, found = [], []
    for path, text in texts.items():
        cited, problems = parse_file(path, text)
        citations += cited
        found += problems
        found += bare(path, text)
    table = Table(citations)
    for citation, section in table.only_tested():
        found.append(tidy.Finding(
            "citation", citation.path, citation.line, "no code cites " +
            name_of(section), None))
    for package, sections in sorted(table.untested().items()):
        names = ", ".join(sorted(name_of(s) for s in sections))
        found.append(tidy.Finding(
            "untested", package, 1, "%d sections that no test cites: %s" %
            (len(sections), names), len(sections)))
    try:
        current = filled(document, table) == document
    except ValueError as error:
        found.append(tidy.Finding("citation", DOCUMENT, 1, str(error), None))
    else:
        if not current:
            found.append(tidy.Finding(
                "citation", DOCUMENT, 1,
                "is not what the code cites: ./dev citations --write", None))
    return table, found


def read_document(root):
    with open(os.path.join(root, DOCUMENT), encoding="utf-8") as handle:
        return handle.read()


def check_tree(root):
    return check(read_tree(root), read_document(root))[1]


def show(table, wanted, only_untested):
    """Prints the sections whose names begin with `wanted`. Whether any do."""
    shown = False
    for number, (title, _) in enumerate(PROTOCOLS):
        rows = [s for s in table.sections(number)
                if name_of(s).startswith(wanted) and
                not (only_untested and s in table.tests)]
        if rows:
            shown = True
            print("\n" + title)
        for section in rows:
            print("  %-22s %s" % (name_of(section),
                                  "; ".join(table.rules[section])))
            print("    implemented:", " ".join(sorted(table.code[section])))
            print("    tested:", " ".join(sorted(
                table.tests.get(section, ["no"]))))
    return shown


def main():
    parser = argparse.ArgumentParser(
        prog="./dev citations",
        description="The sections of the standards that the code implements, "
        "and the tests that check them.")
    parser.add_argument("section", nargs="*",
                        help="only these, as IBTA 9.7 or RFC 4861")
    parser.add_argument("--untested", action="store_true",
                        help="only what no test cites")
    parser.add_argument("--write", action="store_true",
                        help="renew the tables of " + DOCUMENT)
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.realpath(__file__))))
    document = read_document(root)
    table, found = check(read_tree(root), document)
    if options.write:
        with open(os.path.join(root, DOCUMENT), "w",
                  encoding="utf-8") as handle:
            handle.write(filled(document, table))
        return
    shown = show(table, " ".join(options.section), options.untested)
    if not options.untested:
        print()
        print("\n".join(summary(table)))
    elif not shown:
        print("Every cited section has a test.")
    for item in found:
        if item.rule == "citation":
            print("%s:%d: %s" % (item.path, item.line, item.message))


if __name__ == "__main__":
    main()
