#!/usr/bin/python3
"""plot.py is shown documents that it must refuse, and draws one twice. With
the distribution's Python, for which its matplotlib is built."""
import copy
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

FOLDER = pathlib.Path(os.path.realpath(__file__)).parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True


def absent(module, package):
    """The reason to skip, or None."""
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{package} is missing: apt-get install {package}"


NO_SCHEMA = absent("jsonschema", "python3-jsonschema")
NO_DRAWING = NO_SCHEMA or absent("matplotlib", "python3-matplotlib")
if NO_SCHEMA is None:
    import plot

FIXTURE = FOLDER / "testdata" / "pictures.json"


@unittest.skipIf(NO_SCHEMA is not None, NO_SCHEMA)
class DocumentTest(unittest.TestCase):

    def setUp(self):
        self.document = plot.load(FIXTURE)

    def refused(self, text):
        with self.assertRaises(plot.Broken) as caught:
            plot.check(self.document)
        self.assertIn(text, str(caught.exception))

    def test_what_is_written_is_what_is_read(self):
        self.assertEqual(plot.dump(self.document),
                         FIXTURE.read_text(encoding="utf8"))

    def test_another_format_is_refused(self):
        self.document["format"] = 2
        self.refused("format: 1 was expected")

    def test_a_missing_part_is_named(self):
        del self.document["machine"]["kernel"]
        self.refused("machine: 'kernel' is a required property")

    def test_a_value_that_is_no_number_is_named_with_its_place(self):
        self.document["panels"]["rate"][1]["points"][0]["near"][2] = "fast"
        self.refused("panels.rate[1].points[0].near[2]: 'fast'")

    def test_a_point_without_a_value_is_refused(self):
        del self.document["panels"]["loss"][0]["points"][0]["any"]
        self.refused("panels.loss[0].points[0]")

    def test_a_baseline_of_another_run_is_refused(self):
        del self.document["panels"]["rate"][0]
        self.refused("series 'uRNIC write' has the baseline 'raw port', which "
                     "this run did not measure")

    def test_two_series_of_one_name_are_refused(self):
        panel = self.document["panels"]["delay"]
        panel.append(copy.deepcopy(panel[2]))
        self.refused("series 'uRNIC iWARP' is there twice")

    def test_an_x_of_another_panel_is_refused(self):
        self.document["panels"]["latency"][0]["points"][0]["x"] = 8
        self.refused("series 'raw port' has no place for x = 8")

    def test_a_name_of_another_panel_is_refused(self):
        self.document["panels"]["share"][0]["points"][0]["x"] = "50 %"
        self.refused("series 'uRNIC RoCE' has no place for x = '50 %'")

    def test_a_number_is_expected_where_x_has_no_names(self):
        self.document["panels"]["incast"][0]["points"][0]["x"] = "beside BBR"
        self.refused("series 'uRNIC RoCE' has no place for x = 'beside BBR'")

    def test_text_that_is_no_document_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            with self.assertRaisesRegex(plot.Broken, "No such file"):
                plot.load(path)
            path.write_text("{", encoding="utf8")
            with self.assertRaisesRegex(plot.Broken, "not JSON"):
                plot.load(path)
            path.write_text("[]", encoding="utf8")
            with self.assertRaisesRegex(plot.Broken, "the document: "):
                plot.load(path)

    def test_only_rounds_of_one_distance_are_compared(self):
        panel = self.document["panels"]["rate"]
        self.assertEqual(plot.distance_of(panel), "near")
        self.assertEqual(plot.points_of(panel[1], "near")[0],
                         (8, 12, 10.8, 14.4))
        self.assertEqual(plot.points_of(panel[1], "far"),
                         [(8, 5.5, 5.5, 5.5)])
        self.assertTrue(next(plot.ratios(self.document)).startswith(
            "rate, CPUs near: uRNIC write / raw port: 8: 0.40, 64: 0.39"))


@unittest.skipIf(NO_DRAWING is not None, NO_DRAWING)
class DrawingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        import drawing  # pylint: disable=import-outside-toplevel
        with tempfile.TemporaryDirectory() as folder:
            cls.asked = drawing.ASKED
            draw = lambda: [(path.name, path.read_bytes()) for path in
                            drawing.draw(plot.load(FIXTURE),
                                         pathlib.Path(folder))]
            cls.first, cls.second = draw(), draw()

    def test_two_drawings_are_identical(self):
        self.assertEqual([name for name, _ in self.first], [
            "rate.svg", "latency.svg", "queue_pairs.svg", "impaired.svg",
            "fairness.svg"])
        self.assertTrue(self.first == self.second)

    def test_a_panel_without_a_series_at_its_distance_is_drawn(self):
        import drawing  # pylint: disable=import-outside-toplevel
        document = plot.load(FIXTURE)
        for name in ("share", "incast"):
            for point in document["panels"][name][0]["points"]:
                point["far"] = point.pop("any")
        plot.check(document)
        with tempfile.TemporaryDirectory() as folder:
            paths = drawing.draw(document, pathlib.Path(folder))
        self.assertEqual(len(paths), len(drawing.PICTURES))

    def test_words_are_text_and_every_series_has_its_own(self):
        panels = [["rate"], ["latency"], ["queue_pairs"],
                  ["loss", "loss_1ms", "delay"],
                  ["share", "incast", "incast_resent", "incast_jain"]]
        rounds = ["3", "3", "3", "1 to 3", "3"]
        document = plot.load(FIXTURE)
        for (_, picture), names, of in zip(self.first, panels, rounds):
            texts = {text.text for text in
                     xml.fromstring(picture).iter(
                         "{http://www.w3.org/2000/svg}text")}
            for name in names:
                for series in document["panels"][name]:
                    self.assertIn(series["name"], texts)
            self.assertIn(f"Medians of {of} rounds; whiskers: minimum and "
                          "maximum.", texts)
            self.assertNotIn(b"<dc:date>", picture)


def report(result):
    """What Bazel shows and the gate counts, where tests were skipped."""
    reasons = sorted({reason for _, reason in result.skipped})
    for reason in reasons:
        print(f"SKIPPED {reason}")
    path = os.environ.get("XML_OUTPUT_FILE")
    if path is None or not reasons:
        return
    suites = xml.Element("testsuites")
    suite = xml.SubElement(suites, "testsuite", name="plot_test")
    for i in range(result.testsRun):
        case = xml.SubElement(suite, "testcase", classname="plot_test",
                              name=f"case{i}")
        if i < len(result.skipped):
            case.set("name", result.skipped[i][0].id())
            xml.SubElement(case, "skipped", message=result.skipped[i][1])
    xml.ElementTree(suites).write(path)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    report(program.result)
