"""Lines that tests/gate.py counts, and how a test says that it failed.

Standard library only.
"""

import subprocess
import time


class Failed(Exception):
    """Says what was expected, or shows what came instead."""


class Skip(Exception):
    """This machine cannot run the test; says why."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def run(argv, timeout=1800, **options):
    """What the program says, which must succeed. The time is for one that
    hangs; a busy machine is slow."""
    argv = [str(word) for word in argv]
    result = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=timeout, **options)
    check(result.returncode == 0,
          f"{' '.join(argv[:8])}: status {result.returncode}\n"
          f"{result.stdout[-4000:]}{result.stderr[-4000:]}")
    return result.stdout


class Report:
    """Runs tests and counts them."""

    def __init__(self):
        self._begun = self._passed = self._failed = self._skipped = 0

    def test(self, name, function, *arguments):
        """What the function returns; None when it failed."""
        start, result = time.monotonic(), None
        self._begun += 1
        print(f"[{self._begun}] {name}", flush=True)
        try:
            result = function(*arguments)
            self._passed += 1
            print(f"PASSED {name} ({time.monotonic() - start:.1f} s)")
        except Skip as reason:
            self.skip(name, reason)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self._failed += 1
            print(f"FAILED {name}:\n{error}")
            print(getattr(error, "stderr", None) or "", flush=True)
        return result

    def skip(self, name, reason):
        self._skipped += 1
        print(f"SKIPPED {name}: {reason}", flush=True)

    def end(self):
        print(f"{self._passed} passed, {self._failed} failed, "
              f"{self._skipped} skipped", flush=True)
        return 1 if self._failed else 0
