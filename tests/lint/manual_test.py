#!/usr/bin/env python3
"""The manual pages and the completions have what `urnic --help` prints, and
docs/troubleshooting.md quotes messages that the program has.

usage: manual_test.py URNIC LIBRARY...
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DOCS = os.path.join(ROOT, "docs")
BASH = os.path.join(DOCS, "completion", "urnic.bash")
URNIC = ""
BINARIES = []


def read(*parts):
    with open(os.path.join(DOCS, *parts), encoding="utf-8") as handle:
        return handle.read()


def help_of(*words):
    return subprocess.run([URNIC, *words, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def options_of(help_text):
    """--long and -s of each line that describes an option."""
    found = set()
    for line in re.findall(r"^  (-\S+)", help_text, re.MULTILINE):
        found.update(line.split(","))
    return found


def subcommands_of(help_text):
    section = re.search(r"^Subcommands:\n((?:  .*\n)*)", help_text,
                        re.MULTILINE)
    if not section:
        return set()
    return set(re.findall(r"^  (\w+)", section.group(1), re.MULTILINE))


def options_of_page(text):
    """Of the items "Fl x , Fl -long Ar VALUE"; "Fl -" alone ends options."""
    found = set()
    for item in re.findall(r"^\.It (Fl .*)", text, re.MULTILINE):
        if " Ta " not in item:
            found.update("-" + name for name in re.findall(r"Fl (\S+)", item))
    return found - {"--"}


def all_commands():
    """{name: help} of urnic, as "", and of its subcommands."""
    top = help_of()
    return {"": top, **{name: help_of(name) for name in subcommands_of(top)}}


def completed(line):
    """What bash offers at the end of `line`."""
    script = r"""
      source "$1"
      COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \t\n"=:'
      eval "set -- $2"
      # As readline cuts: ":" and "=" are words of their own.
      COMP_WORDS=()
      for word; do
        while [[ $word == *[:=]* ]]; do
          [[ $word == [:=]* ]] || COMP_WORDS+=("${word%%[:=]*}")
          rest=${word#*[:=]}
          COMP_WORDS+=("${word:${#word}-${#rest}-1:1}")
          word=$rest
        done
        [[ -z $word ]] || COMP_WORDS+=("$word")
      done
      [[ $COMP_LINE != *" " ]] || COMP_WORDS+=("")
      COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
      _urnic
      printf '%s\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", BASH, line],
                          check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.stderr:
        raise AssertionError(done.stderr)
    return set(done.stdout.split())


class Manual(unittest.TestCase):
    maxDiff = None

    def test_each_subcommand_has_a_page_and_no_other_has_one(self):
        pages = {"urnic.1"} | {f"urnic-{name}.1"
                               for name in subcommands_of(help_of())}
        self.assertEqual(pages, set(os.listdir(os.path.join(DOCS, "man"))))

    def test_a_page_has_the_options_of_help(self):
        for name, text in all_commands().items():
            page = f"urnic-{name}.1" if name else "urnic.1"
            with self.subTest(page):
                self.assertEqual(options_of(text),
                                 options_of_page(read("man", page)))

    def test_a_page_names_the_subcommands_of_help(self):
        for name, text in all_commands().items():
            page = read("man", f"urnic-{name}.1" if name else "urnic.1")
            for verb in subcommands_of(text):
                with self.subTest(f"{name} {verb}"):
                    self.assertRegex(page, rf"(?m)^\.It Cm {verb}\b")
                    if name:
                        self.assertEqual(
                            {"-h", "--help"},
                            options_of(help_of(name, verb)))

    def test_pages_render_without_a_warning(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is missing: apt-get install mandoc")
        folder = os.path.join(DOCS, "man")
        for page in sorted(os.listdir(folder)):
            with self.subTest(page):
                done = subprocess.run(
                    ["mandoc", "-T", "lint", "-W", "warning",
                     os.path.join(folder, page)], text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual("", done.stdout)


class Completion(unittest.TestCase):
    def test_bash_offers_the_subcommands(self):
        names = subcommands_of(help_of())
        self.assertEqual(names | {"help"}, completed("urnic "))
        self.assertEqual(names, completed("urnic help ") - {"help"})
        self.assertEqual({"add", "del"}, completed("urnic addr "))
        for name in names:
            if verbs := subcommands_of(help_of(name)):
                self.assertEqual(verbs, completed(f"urnic {name} "))

    def test_bash_offers_the_options(self):
        for name, text in all_commands().items():
            with self.subTest(name):
                long = {o for o in options_of(text) if o.startswith("--")}
                self.assertEqual(
                    long, completed(f"urnic {name} --".replace("  ", " ")))

    def test_bash_offers_interfaces_behind_the_colon(self):
        self.assertIn("lo", completed("urnic run --port iface:"))
        self.assertIn("iface:lo", completed("urnic run --port ifa"))
        self.assertEqual({"1,path="}, completed(
            "urnic run --port loop --port net_virtio_user0,server="))

    def test_bash_offers_programs_behind_the_options(self):
        for line in ("urnic run --port loop -- ba",
                     "urnic run --port loop --addr 10.0.0.1/24 ba"):
            self.assertIn("bash", completed(line))
        self.assertEqual({"embedded"}, completed("urnic doctor --mode "))

    def test_zsh_has_the_same_words(self):
        text = read("completion", "_urnic")
        options = set(re.findall(r"'(?:\*|\(- \*\))?(--[\w-]+)\[", text))
        for both in re.findall(r"\{(-\w,--[\w-]+)\}'\[", text):
            options |= set(both.split(","))
        expected = set()
        for help_text in all_commands().values():
            expected |= options_of(help_text)
        self.assertEqual(expected, options)
        names = re.search(r"subcommand:\(([\w ]+) help\)", text).group(1)
        self.assertEqual(subcommands_of(help_of()), set(names.split()))
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n",
                            os.path.join(DOCS, "completion", "_urnic")],
                           check=True)


class Troubleshooting(unittest.TestCase):
    def test_the_quoted_messages_are_in_the_program(self):
        """Those in the tables under "it prints", with "..." for what differs.
        Pieces of four characters and more are looked for."""
        binary = b""
        for path in BINARIES:
            with open(path, "rb") as handle:
                binary += handle.read()
        rows, ours = [], False
        for line in read("troubleshooting.md").splitlines():
            if not line.startswith("|"):
                ours = False
            elif line.startswith("| it prints "):
                ours = True
            elif ours and not line.startswith("|--"):
                rows.append(re.match(r"\| `([^`]+)`", line).group(1))
        self.assertGreater(len(rows), 40)
        for row in rows:
            for piece in row.split("..."):
                if len(piece.strip()) >= 4:
                    with self.subTest(row):
                        # Not assertIn, which would print the whole program.
                        self.assertTrue(piece.strip().encode() in binary,
                                        "no program has: " + piece)


class Operate(unittest.TestCase):
    def test_the_page_has_the_events(self):
        with open(os.path.join(ROOT, "ras", "history", "history_events.def"),
                  encoding="utf-8") as handle:
            names = re.findall(r'^URNIC_HISTORY_EVENT\(\w+, "([^"]+)"',
                               handle.read(), re.MULTILINE)
        page = read("operate", "objects-and-events.md")
        table = page[page.index("| event "):]
        self.assertGreater(len(names), 5)
        cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
        self.assertEqual(set(names),
                         set(re.findall(r"`([\w-]+)`", " ".join(cells))))

    def test_the_page_has_the_codes(self):
        codes = json.loads(subprocess.run(
            [URNIC, "explain", "--json"], check=True, text=True,
            stdout=subprocess.PIPE).stdout)
        self.assertGreater(len(codes), 50)
        rows = [f"| `{c['code']}` | {c['severity']} | {c['text']} |"
                for c in codes]
        page = read("operate", "errors.md").splitlines()
        self.assertEqual(rows, [r for r in page if r.startswith("| `URN")])


if __name__ == "__main__":
    URNIC = os.path.abspath(sys.argv[1])
    BINARIES = [os.path.abspath(path) for path in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1])
