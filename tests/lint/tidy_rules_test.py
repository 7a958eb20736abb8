#!/usr/bin/env python3
"""Each rule of tidy.py is shown something bad and something good."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import tidy  # noqa: E402 (the path must come first)
import words  # noqa: E402


def rules(path, text):
    return sorted({f.rule for f in tidy.check_file(path, text)})


def function(lines):
    return "int F(int a,\n      int b) {\n" + "  a;\n" * (lines - 3) + "}\n"


class RulesTest(unittest.TestCase):

    def test_pure_folders(self):
        bad = ["auto t = std::chrono::steady_clock::now();",
               "int x = rand();", "auto* p = new Thing;", "std::mutex m;",
               'printf("x");', "rte_mbuf* m;", "absl::Now();",
               "#include <infiniband/verbs.h>", "int* p = new (place) int;"]
        for line in bad:
            self.assertIn("pure", rules("transport/rc/qp.cc", line + "\n"),
                          line)
            self.assertIn("pure", rules("transport/encap.h", line + "\n"), line)
            self.assertNotIn("pure", rules("datapath/engine/engine.cc", line + "\n"))
            self.assertNotIn("pure", rules("transport/rc/a_test.cc",
                                           line + "\n"))
        good = ["// a new view, at random, from the rte_ world",
                'Say("printf(");', "int renew = 1;", "int operand;",
                "/* std::mutex\n new Thing */"]
        for line in good:
            self.assertEqual([], rules("transport/rc/qp.cc", line + "\n"),
                             line)
        self.assertEqual([], rules("transport/base/check.h",
                                   '#pragma once\nfprintf(stderr, "x");\n'))

    def test_dpdk_only_in_the_datapath(self):
        line = "#include <rte_mbuf.h>\n"
        self.assertEqual(["dpdk"], rules("verbs/control/mr.cc", line))
        self.assertEqual([], rules("datapath/port.cc", line))
        self.assertEqual([], rules("bench/raw.cc", line))

    def test_heavy_headers_have_doors(self):
        for line, door in [("#include <CLI/CLI.hpp>\n",
                            "verbs/cli/command_line.cc"),
                           ('#include "nlohmann/json_fwd.hpp"\n',
                            "ras/facts/facts_json.cc"),
                           ("  # include <toml++/toml.h>\n",
                            "verbs/cli/config_file.cc")]:
            self.assertEqual(["door"], rules("verbs/cli/a.cc", line))
            self.assertEqual(["door"], rules("verbs/a_test.cc", line))
            self.assertEqual(["door"], rules(door.replace(".cc", ".h"),
                                             "#pragma once\n" + line))
            self.assertEqual([], rules(door, line))
        self.assertEqual([], rules("verbs/cli/a.cc",
                                   '#include "verbs/cli/command_line.h"\n'
                                   "// <CLI/CLI.hpp>\n"))
        paths = [path for _, doors in tidy.DOORS for path in doors]
        self.assertEqual([], list(tidy.check_door_paths(paths)))
        self.assertEqual(paths[:1], [f.path for f in
                                     tidy.check_door_paths(paths[1:])])

    def test_a_refusal_has_a_code(self):
        line = 'return absl::NotFoundError("no interface");\n'
        self.assertEqual(["refusal"], rules("datapath/port/a.cc", line))
        self.assertEqual([], rules("datapath/port/a_test.cc", line))
        self.assertEqual([], rules("verbs/cli/a.cc", line))
        self.assertEqual([], rules("verbs/control/a.cc",
                                   'return Refusal(ErrorCode::kInUse, "x");\n'))

    def test_file_length(self):
        self.assertEqual([], rules("verbs/a.py", "x\n" * 600))
        self.assertEqual(["file-lines"], rules("verbs/a.py", "x\n" * 601))
        self.assertEqual([], rules("verbs/README.md", "x\n" * 601))

    def test_columns(self):
        self.assertEqual([], rules("verbs/a.cc", "x" * 80 + "\n"))
        self.assertEqual(["columns"], rules("verbs/a.cc", "x" * 81 + "\n"))

    def test_words(self):
        some = words.Words("# why\nill(?:|s) -> bad\n"
                           "at first -> before\n")

        def lines(text):
            return [line for _, line, _ in some.check({"a.cc": text})]
        self.assertEqual([2], lines("\n// Ills it.\n"))
        self.assertEqual([], lines("frills, illness\n"))
        self.assertEqual([], lines("//= IEEE 1 2: ill\n"))
        self.assertEqual([1, 2], lines("at first\n  // at\n  // first\n"))
        self.assertEqual([], list(some.check({words.LIST: "ill\n"})))
        self.assertTrue(words.read())

    def test_white_space(self):
        self.assertEqual(["tab"], rules("verbs/a.cc", "\tx;\n"))
        self.assertEqual(["trailing"], rules("verbs/a.cc", "x; \n"))

    def test_unfinished_work_and_machine_paths(self):
        self.assertEqual(["todo"], rules("verbs/a.cc", "// TO" "DO: x\n"))
        for path in ["/wo" "rk/main/x", "/tm" "p/x"]:
            self.assertEqual(["machine-path"],
                             rules("verbs/a.py", "f = '%s'\n" % path), path)
        self.assertEqual([], rules("verbs/a.py", "f = d + 'a/tm" "p/x'\n"))

    def test_guard(self):
        self.assertEqual(["guard"], rules("verbs/a.h", "int x;\n"))
        self.assertEqual([], rules("verbs/a.h", "#pragma once\n"))

    def test_function_length(self):
        self.assertEqual([], rules("verbs/a.cc", function(70)))
        self.assertEqual(["function-lines"], rules("verbs/a.cc", function(71)))
        inner = "namespace a {\nclass B {\n" + function(71) + "};\n}\n"
        self.assertEqual(["function-lines"], rules("verbs/a.cc", inner))
        # A long table, class or namespace is not a function.
        for head in ["constexpr int kTable[] = ", "struct A ", "namespace a ",
                     "class alignas(64) B : public C<int()> "]:
            self.assertEqual([], rules("verbs/a.cc",
                                       head + "{\n" + "1,\n" * 90 + "};\n"),
                             head)
        text = 'extern "C" {\n' + function(60) + function(60) + "}\n"
        self.assertEqual([], rules("verbs/a.cc", text))
        text = "#define M(x) {\n" + function(60) + function(60)
        self.assertEqual([], rules("verbs/a.cc", text))

    def test_torn_comments(self):
        full = "A line of words that is as long as lines of comments are here."
        def torn(*lines, path="verbs/a.h"):
            text = "\n".join(lines) + "\nint x;\n"
            return [f.line for f in
                    tidy.check_torn_comments(tidy.File(path, text))]
        self.assertEqual([2], torn("// " + full[:-1], "// and the",
                                   "// " + full))
        self.assertEqual([1], torn("  // and the", "  // " + full))
        self.assertEqual([1], torn("// Some, none,", "// " + full))
        # In the item of a list: the same column, or that of the item's mark.
        item, rest = "//   - " + "word " * 14 + "end", "//     " + full
        self.assertEqual([2], torn(item, "//     and the", rest))
        self.assertEqual([2], torn(item, "//   and", rest))
        self.assertEqual([2], torn("// 1. " + item[7:], "// and the",
                                   "//    " + full))
        for good in [
                ["// " + full, "// and the", "//", "// " + full],
                ["// It ends.", "// " + full],
                ["// It ends (here.)", "// " + full],
                ["// Two kinds", "// - one", "// - two"],
                ["// - an item", "// - another one", "int y;  // z"],
                ["//   NAME  text", "//   OTHER  text"],
                ["//   name VALUE", "//   other VALUE"],
                ["// sum := value { value }", "// value := number"],
                ["// | a | b |", "// | c | d |"],
                ["// Title", "// -----", "// " + full],
                ["// Call(name, text)", "// " + full],
                ["// one,", "// two,", "// three"],
                ["// and", "//= IBTA 9.7: a rule", "// " + full],
                ["// and", "  // " + full],
                ["// It calls", "// `upper.OnUlpdu(const Ulpdu& ulpdu, "
                 "std::span<uint8_t> out)`"],
                ["//   where  text of an entry which is as long as the line is",
                 "//   and", "//          the rest of it"]]:
            self.assertEqual([], torn(*good), good)
        self.assertEqual([], torn("// and the", "// " + full,
                                  path="third_party/a.h"))
        self.assertEqual([], torn("// and the", "// " + full, path="a.md"))

    def test_named_files(self):
        endings = tidy.endings_of({"verbs/control/qp.h", "README.md"})
        def named(path, text):
            return [f.message.split()[0] for f in
                    tidy.check_named_files(tidy.File(path, text), endings)]
        self.assertEqual([], named("verbs/b.md", "see `control/qp.h`\n"))
        self.assertEqual(["control/qq.h"], named("verbs/b.md", "control/qq.h"))
        # In code only comments are searched, and names in <> are ignored.
        gone = "gone" + ".h"
        self.assertEqual([], named("verbs/b.cc", 'include "%s"\n' % gone))
        self.assertEqual([gone], named("verbs/b.cc", "int x;  // %s\n" % gone))
        self.assertEqual([], named("verbs/b.cc",
                                   "// <linux/%s>, qp.{h,cc}\n" % gone))

    def test_core_reach(self):
        one, two = "datapath/port/port.h", "datapath/engine/engine.h"
        core = "transport/rc/qp.h"
        texts = {"verbs/a.cc": '#include "%s"\n#include <c.h>\n' % one,
                 one: '#include "%s"\n' % two,
                 two: '#include "%s"\n' % one,
                 "datapath/engine/engine.cc": '#include "%s"\n' % core,
                 core: ""}
        self.assertEqual([], list(tidy.check_core_reach(texts)))
        texts[two] += '  # include "%s"\n' % core
        self.assertEqual(
            [("core-reach", "verbs/a.cc",
              "reaches %s from %s from %s from verbs/a.cc" % (core, two, one))],
            [(f.rule, f.path, f.message)
             for f in tidy.check_core_reach(texts)])

    def test_mutations(self):
        texts = {"tests/sim/mutation_list.bzl": '"""Doc."""\n\nM = {\n    # rc\n    "rc": ["a"],\n    "scripts": {"b": "script"},\n}\n',
                 "transport/rc/a.cc": "// MUTATION(x, 1, 2)\nMUTATION_SKIPS(a)\nif (b) c();\n",
                 "transport/rc/b.h": "d = MUTATION(\n  b, 1, 2);\n"}
        self.assertEqual([], list(tidy.check_mutations(texts)))
        texts["transport/rc/b.h"] = "MUTATION_ADDS(a, b;)\nMUTATION(c, 1, 2);\n"
        self.assertEqual(
            [("transport/rc/b.h", 1, "a is also in transport/rc/a.cc"),
             ("transport/rc/b.h", 2, "c is not in tests/sim/mutation_list.bzl"),
             ("tests/sim/mutation_list.bzl", 1, "no code has b")],
            [(f.path, f.line, f.message) for f in tidy.check_mutations(texts)])

    def test_readmes(self):
        missing = {f.path for f in tidy.check_readmes(
            {"a/b/x.cc", "a/README.md", "a/b/testdata/x", "dev",
             "third_party/x/BUILD.bazel", "third_party/README.md"})}
        self.assertEqual({"a/b/README.md"}, missing)

    def test_ratchet(self):
        found = tidy.check_file("verbs/a.cc", "x\n" * 650)
        self.assertEqual(1, len(tidy.apply_ratchet(found, {})))
        entry = ("file-lines", "verbs/a.cc")
        self.assertEqual([], tidy.apply_ratchet(found, {entry: 650}))
        self.assertEqual(1, len(tidy.apply_ratchet(found, {entry: 640})))
        lower = tidy.apply_ratchet(found, {entry: 660})
        self.assertIn("lowered to 650", lower[0])
        gone = tidy.apply_ratchet([], {entry: 650})
        self.assertIn("no longer needed", gone[0])
        self.assertEqual({entry: 650}, tidy.read_ratchet(
            "# why\nfile-lines verbs/a.cc 650  # a reason\n"))


if __name__ == "__main__":
    unittest.main()
