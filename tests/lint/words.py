"""The word list words.txt: reads it, and finds its words in texts."""

import os
import re

LIST = "tests/lint/words.txt"
# The list itself, and a document that repeats citations.
_EXEMPT = (LIST, "docs/conformance.md")

# A blank, or the end of a line with the comment mark of the next one.
_GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?://+|#+|\*)?[ \t]*)"
_CITATION = re.compile(r"^[ \t]*//=[^\n]*", re.MULTILINE)


class Words:
    """Lines "WORDS -> BETTER"."""

    def __init__(self, text):
        self._rules = []  # (pattern, better words)
        for line in text.splitlines():
            if line and not line.startswith("#"):
                words, better = line.split(" -> ", 1)
                # No \b at the start: the search is fast for patterns that begin
                # with letters.
                pattern = words.replace(" ", _GAP) + r"\b"
                self._rules.append((re.compile(pattern), better))

    def check(self, texts):
        """(path, line, message) of each place. `texts`: by path."""
        for path, text in texts.items():
            if path in _EXEMPT:
                continue
            text = _CITATION.sub("", text).lower()
            for pattern, better in self._rules:
                for match in pattern.finditer(text):
                    if text[match.start() - 1:match.start()].isalnum():
                        continue
                    yield (path, text.count("\n", 0, match.start()) + 1,
                           '"%s": better: %s' %
                           (" ".join(match.group(0).split()), better))


def read():
    folder = os.path.dirname(os.path.realpath(__file__))
    with open(os.path.join(folder, os.path.basename(LIST)),
              encoding="utf-8") as handle:
        return Words(handle.read())
