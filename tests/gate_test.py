#!/usr/bin/env python3
"""What the gate and the loop over tests promise, with programs that only
pretend. Needs no root; tests/e2e/test_interrupt.py interrupts a real bed."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
PATHS = f"""
import sys
sys.path[:0] = [{HERE!r}, {HERE + '/e2e'!r}]
sys.dont_write_bytecode = True
"""
SUITE = PATHS + """
import pathlib, suite
class Tools:
    def repair(self):
        return "the guest has died"
def fails_once(context):
    try:
        pathlib.Path("seen").touch(exist_ok=False)
    except FileExistsError:
        return
    context.check(False, "at first")
def fails(context):
    context.check(False, "always")
def is_skipped(context):
    context.need("no-such-program")
def passes(context):
    print("# a note")
for body in (fails_once, fails, is_skipped, passes):
    suite.add(body.__name__, body)
"""
GATE = PATHS + """
import gate
def shell(text):
    return lambda: gate.run_program(["sh", "-c", text])
"""
BAZEL = """#!/usr/bin/env python3
import json, pathlib, sys
for word in sys.argv:
    if word.startswith("--build_event_json_file="):
        out = word.split("=")[1]
call = pathlib.Path("calls")
with call.open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
number = len(call.read_text().splitlines())
answer = json.loads(pathlib.Path("answers").read_text())[number - 1]
with open(out, "w") as events:
    for label, status in answer["tests"].items():
        cases = pathlib.Path(label.strip("/") + ".xml").resolve()
        cases.write_text("<a><testcase>" + "<failure/>" * (status == "FAILED") +
                         "</testcase></a>")
        outputs = [{"name": "test.xml", "uri": cases.as_uri()}] * (status != "TIMEOUT")
        events.write(json.dumps({
            "id": {"testResult": {"label": label}},
            "testResult": {"status": status, "testActionOutput": outputs}}) + "\\n")
sys.exit(answer["status"])
"""


class GateTest(unittest.TestCase):

    def setUp(self):
        # pylint: disable-next=consider-using-with
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_python(self, text):
        """(status, what it says)"""
        path = f"{self.folder}:{os.environ['PATH']}"
        done = subprocess.run([sys.executable, "-c", text], cwd=self.folder, text=True,
                              env={**os.environ, "PATH": path}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=200, check=False)
        return done.returncode, done.stdout

    def check_suite(self, jobs):
        status, said = self.run_python(
            SUITE + f"sys.exit(suite.run(suite.TESTS, Tools(), {jobs}))")
        self.assertEqual(status, 1, said)
        self.assertIn("FIRST TRY FAILED fails_once", said)
        self.assertIn("at first\nthe guest has died\n", said)
        self.assertIn("[6/6] fails\n", said)
        self.assertTrue(said.endswith("failed: fails\nAGAIN fails_once\n"
                                      "2 passed, 1 failed, 1 skipped\n"), said)
        return said

    def test_what_fails_runs_once_more_at_the_end(self):
        self.check_suite(1)

    def test_the_same_with_two_at_a_time(self):
        said = self.check_suite(2)
        self.assertRegex(said, r"\npassed  passes \(.* s\):\n# a note\n")

    def test_an_interrupted_part_says_what_it_has_done(self):
        for jobs in (1, 2):
            status, said = self.run_python(SUITE + f"""
import clean_up, os, signal, tally, time
tell = tally.Tally.first
def first(*words):
    tell(*words)
    pathlib.Path("told").touch()
tally.Tally.first = first
pathlib.Path("told").unlink(missing_ok=True)
def ends_us(_context):
    while not pathlib.Path("told").exists():
        time.sleep(0.01)
    os.kill(os.getppid() if {jobs} == 2 else os.getpid(), signal.SIGTERM)
    time.sleep(100)
suite.add("ends_us", ends_us)
clean_up.raise_on_signals()
sys.exit(suite.run([t for t in suite.TESTS if t.name in ("fails", "ends_us")], Tools(), {jobs}))
""")
            self.assertEqual(status, 128 + 15, said)
            self.assertTrue(said.endswith("\nfailed: fails\n0 passed, 1 failed, 0 skipped\n"), said)

    def test_three_second_tries_may_pass_and_not_four(self):
        for more, expected in (("", 0), ("; echo AGAIN d", 1)):
            status, said = self.run_python(GATE + f"""
sys.exit(gate.run([("one", 1, shell("echo PASSED a; echo AGAIN a")),
                   ("two", 1, shell("echo PASSED b; echo AGAIN b c{more}"))]))
""")
            self.assertEqual(status, expected, said)
            self.assertIn("\nAGAIN a b c", said)
            self.assertTrue(said.endswith(f"2 passed, {expected} failed, 0 skipped\n"), said)

    def pretend_bazel(self, again, *answers):
        """(what Bazel was called with, what the gate said)"""
        program = self.folder / "bazel"
        program.write_text(BAZEL, encoding="ascii")
        program.chmod(0o755)
        (self.folder / "calls").write_text("", encoding="ascii")
        (self.folder / "answers").write_text(json.dumps(answers), encoding="ascii")
        _, said = self.run_python(GATE + f"""
import pathlib
gate.ROOT = pathlib.Path.cwd()
gate.run([("p", 1, lambda: gate.run_bazel("//...", options=["--config=x"], again={again}))])
""")
        return (self.folder / "calls").read_text(encoding="ascii").splitlines(), said

    def test_a_label_that_fails_runs_once_more_alone(self):
        first = {"status": 3, "tests": {"//a": "PASSED", "//b": "FAILED", "//c": "TIMEOUT"}}
        second = {"status": 3, "tests": {"//b": "PASSED", "//c": "FAILED"}}
        calls, said = self.pretend_bazel(True, first, second)
        self.assertEqual(len(calls), 2)
        self.assertTrue(calls[1].endswith("--config=x --jobs=1 --local_test_jobs=1 "
                                          "--cache_test_results=no -- //b //c"), calls)
        self.assertIn("FIRST TRY FAILED //b", said)
        self.assertIn("\nFAILED //c\n", said)
        self.assertIn("\nAGAIN //b\n", said)
        self.assertTrue(said.endswith("2 passed, 1 failed, 0 skipped\n"), said)
        calls, said = self.pretend_bazel(False, first)
        self.assertEqual(len(calls), 1)
        self.assertTrue(said.endswith("1 passed, 2 failed, 0 skipped\n"), said)

    def test_a_build_that_fails_is_not_repeated(self):
        calls, said = self.pretend_bazel(True, {"status": 1, "tests": {"//a": "FAILED"}})
        self.assertEqual(len(calls), 1)
        self.assertTrue(said.endswith("0 passed, 1 failed, 0 skipped\n"), said)

    def test_the_newest_line_of_progress_is_shown_after_silence(self):
        text = "echo '[1/2] a'; echo PASSED a; echo '[2/2] b'; sleep 2; echo PASSED b"
        for seconds, shown in ((1000, False), (0.5, True)):
            _, said = self.run_python(GATE + f"""
gate.SILENCE_SECONDS = {seconds}
gate.run([("p", 1, shell({text!r}))])
""")
            self.assertNotIn("[1/2] a", said)
            found = re.findall(r"^\[2/2\] b, \d+ s$", said, re.MULTILINE)
            self.assertEqual(bool(found), shown, said)

    def test_what_leaves_its_group_ends_with_the_gate(self):
        # One that ends by SIGTERM, and one that does not.
        text = ("setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; echo $$ > pid; sleep 1000' & "
                "until test -s pid; do sleep 0.1; done; echo PASSED a; kill -INT $PPID; wait")
        status, said = self.run_python(GATE + f"""
import signal
gate.ROOT = None
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(gate.run([("p", 1, shell({text!r})), ("q", 1, shell("echo PASSED b"))]))
""")
        self.assertEqual(status, 128 + 2, said)
        self.assertIn("interrupted by SIGINT; not run: q\n1 passed, 0 failed, 0 skipped\n", said)
        pid = (self.folder / "pid").read_text(encoding="ascii").strip()
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2]
        except FileNotFoundError:
            return
        self.assertEqual(state, "Z", f"{pid} lives")


unittest.main()
