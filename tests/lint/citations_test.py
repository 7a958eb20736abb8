#!/usr/bin/env python3
"""citations.py is shown good and bad citations, and a tree that it must fail."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import citations  # noqa: E402 (the path must come first)
import tidy  # noqa: E402

CODE = "transport/rc/qp.cc"
TEST = "transport/rc/qp_test.cc"
SCRIPT = "tests/scripts/rc/flush.pkt"
EMPTY = "\n".join(
    line for name in ("summary", "tables")
    for line in (citations.BEGIN % name, citations.END))


def cited(text, path=CODE):
    """(names of the sections, words) of each citation in `text`."""
    found, problems = citations.parse_file(path, text)
    assert not problems, problems
    return [([citations.name_of(s) for s in c.sections], c.words)
            for c in found]


def complaints(text, path=CODE):
    found = list(citations.parse_file(path, text)[1])
    return [f.message for f in found + list(citations.bare(path, text))]


def check(texts):
    """Findings of a tree whose document is up to date."""
    table, _ = citations.check(texts, EMPTY)
    return citations.check(texts, citations.filled(EMPTY, table))


class CitationsTest(unittest.TestCase):

    def test_one_section(self):
        self.assertEqual([(["IBTA 9.7.5"], "it waits")],
                         cited("  //= IBTA 9.7.5: it waits\n"))

    def test_the_words_go_on(self):
        self.assertEqual([(["RFC 826"], "it waits for long")],
                         cited("//= RFC 826: it waits\n//= for long\n"))

    def test_two_citations_in_a_row(self):
        self.assertEqual(
            [(["IBTA A14"], "a"), (["IEEE 802.1Q 9.6"], "b")],
            cited("//= IBTA A14: a\n//= IEEE 802.1Q 9.6: b\n"))

    def test_several_sections(self):
        self.assertEqual(
            [(["RFC 2236 8.10", "RFC 2236 9", "IBTA C10-93.1.1"], "a: b")],
            cited("//= RFC 2236 8.10, 9, IBTA C10-93.1.1: a: b\n"))

    def test_scripts_and_c(self):
        self.assertEqual([(["IBTA 9.2"], "")],
                         cited("#= IBTA 9.2\n", SCRIPT))
        self.assertEqual([(["IBTA 9.2"], "a")], cited("/*= IBTA 9.2: a */\n"))

    def test_a_test_needs_no_words(self):
        self.assertEqual([(["Linux f()"], "")], cited("//= Linux f()\n", TEST))
        self.assertEqual(1, len(complaints("//= Linux f()\n")))

    def test_what_is_no_citation(self):
        for line in ("RFC 9999 1: a", "IBTA 99.1: a", "IBTA: a", "RFC 826 1: a",
                     "RFC 4861: a", "IBTA 9.x: a", "IBTA 9.1 (b): a",
                     "RFC4861 7: a", "words alone", "IEEE 802.11 3: a",
                     "9.7.5: a", "IBTA 9.2 to 9.4: a", "Linux: a"):
            self.assertEqual(1, len(complaints("//= " + line + "\n")), line)

    def test_words_without_a_beginning(self):
        self.assertEqual(1, len(complaints("//= IBTA 9.2: a\n\n//= b\n")))

    def test_bare_names(self):
        for line in ("// IBTA 9.2: a", "// as (RFC 826) says", "// IBTA\n// 9.2",
                     "int a;  // IBTA A14", "// annex A17.4", "/* RFC 768 */",
                     "// 802.1Q 9.6", "// IBTA volume 1", "// IBTA C9-88",
                     "// (RFC\n// 826 1)"):
            self.assertEqual(1, len(complaints(line + "\n")), line)
        self.assertEqual(
            1, len(complaints('"""IBTA 9.2: a"""\n', "tests/e2e/a.py")))

    def test_names_that_are_no_citation(self):
        for line in ("// an 802.1Q tag", "// as IBTA has it", "// RoCE, RFCs",
                     "//= IBTA 9.2: a", 'Say("RFC 826");'):
            self.assertEqual([], complaints(line + "\n"), line)

    def test_a_table(self):
        table, found = check({
            CODE: "//= IBTA 9.10: b.\n//= IBTA 9.2, RFC 826: a\n",
            "transport/wire/a.h": "//= IBTA 9.2: a\n",
            TEST: "//= IBTA 9.2\n"})
        self.assertEqual(
            [("untested", "transport/rc", 2)],
            [(f.rule, f.path, f.number) for f in found])
        text = "\n".join(citations.details(table))
        self.assertIn("| IBTA 9.2 | a | `transport/rc/qp.cc`, "
                      "`transport/wire/a.h` | `transport/rc/qp_test.cc` |\n"
                      "| IBTA 9.10 | b | `transport/rc/qp.cc` | no |", text)
        self.assertIn("| Packets and transport services | IBTA 7, IBTA 8, "
                      "IBTA 9 | 2 | 1 |", citations.summary(table))
        self.assertIn("| all | | 3 | 1 |", citations.summary(table))

    def test_a_name_is_once_in_a_cell(self):
        self.assertEqual(
            "`transport/rc/`: completer, responder, `verbs/a.cc`, `verbs/a.h`",
            citations.places(["transport/rc/responder.h", "verbs/a.h",
                              "transport/rc/responder.cc", "verbs/a.cc",
                              "transport/rc/completer.cc"]))

    def test_the_ratchet_holds_the_number(self):
        _, found = check({CODE: "//= IBTA 9.10, 9.2: a\n"})
        for allowed, problems in ((2, 0), (1, 1), (3, 1)):
            self.assertEqual(problems, len(tidy.apply_ratchet(
                found, {("untested", "transport/rc"): allowed})), allowed)

    def test_a_test_of_what_no_code_cites(self):
        _, found = check({TEST: "//= IBTA 9.2\n"})
        self.assertEqual(["no code cites IBTA 9.2"],
                         [f.message for f in found])

    def test_an_old_document(self):
        texts = {CODE: "//= IBTA 9.2: a\n", TEST: "//= IBTA 9.2\n"}
        self.assertEqual([], check(texts)[1])
        for document in (EMPTY, "no marks"):
            _, found = citations.check(texts, document)
            self.assertEqual([citations.DOCUMENT], [f.path for f in found])

    def test_what_is_written_by_hand_stays(self):
        table, _ = citations.check({CODE: "//= IBTA 9.2: a\n"}, EMPTY)
        document = citations.filled("before\n" + EMPTY + "\nafter\n", table)
        self.assertTrue(document.startswith("before\n"))
        self.assertTrue(document.endswith("\nafter\n"))
        self.assertEqual(document, citations.filled(document, table))


if __name__ == "__main__":
    unittest.main()
