"""What became of each test of a part, as lines for people and for the gate.

A test that fails is run once more when all others have ended. If it passes
then, it counts as passed, and its name is in the line "AGAIN". The last line is
"N passed, N failed, N skipped".
"""


class Tally:
    """first() for each test, then second() for those in `waiting`, close().
    Before that, begin() says what will run, and expect() how often."""

    def __init__(self):
        self.waiting = []  # those that failed, for a second try
        self._expected = self._begun = 0
        self._count = {"passed": 0, "FAILED": 0, "skipped": 0}
        self._failed = []
        self._again = []

    def expect(self, more):
        self._expected += more

    def begin(self, name):
        """The line of progress, which the gate shows while the test runs."""
        self._begun += 1
        print(f"[{self._begun}/{self._expected}] {name}", flush=True)

    def first(self, name, outcome, text, seconds):
        """`outcome`: "passed", "FAILED" or "skipped"; the text says why."""
        if outcome == "FAILED":
            self.waiting.append(name)
            _print("FIRST TRY FAILED ", name, text, seconds)
        else:
            self.last(name, outcome, text, seconds)

    def second(self, name, outcome, text, seconds):
        self.waiting.remove(name)
        if outcome == "passed":
            self._again.append(name)
        self.last(name, outcome, f"second try: {text}" if text else
                  "second try", seconds)

    def last(self, name, outcome, text, seconds):
        """The same of one for which there is no second try."""
        self._count[outcome] += 1
        if outcome == "FAILED":
            self._failed.append(name)
        _print(f"{outcome:8}", name, text, seconds)

    def close(self):
        """Prints the last lines, also where not all has been run; the exit
        status."""
        failed = self._failed + self.waiting
        if failed:
            print("failed: " + " ".join(failed))
        if self._again:
            print("AGAIN " + " ".join(self._again))
        print(f"{self._count['passed']} passed, "
              f"{self._count['FAILED'] + len(self.waiting)} failed, "
              f"{self._count['skipped']} skipped", flush=True)
        return 1 if failed else 0


def _print(word, name, text, seconds):
    lines = "\n" in text or text.startswith("#")
    separator = ":\n" if lines else ": " if text else ""
    print(f"{word}{name} ({seconds:.1f} s){separator}{text}", flush=True)
