"""Fuzz targets that are also ordinary tests."""

def fuzz_target(name, srcs, deps = [], corpus = None, replay = True):
    """Makes a libFuzzer binary and a test that replays its corpus.

    Args:
      name: of the binary, built by `bazel build --config=fuzz`; the test is
        called <name>_replay_test and needs no fuzzer.
      srcs: define LLVMFuzzerTestOneInput().
      deps: of both.
      corpus: label of a filegroup of inputs, none larger than it must be.
      replay: False leaves the test out: the program <name>_replay remains.
    """
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        data = [corpus] if corpus else [],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["fuzz", "manual"],
        visibility = ["//visibility:public"],
        deps = deps,
    )
    if not replay:
        native.cc_binary(
            name = name + "_replay",
            testonly = True,
            srcs = srcs,
            deps = deps + ["//tests/fuzz:replay_main"],
        )
        return
    native.cc_test(
        name = name + "_replay_test",
        size = "small",
        srcs = srcs,
        args = ["$(rootpaths %s)" % corpus] if corpus else [],
        data = [corpus] if corpus else [],
        deps = deps + ["//tests/fuzz:replay_main"],
    )
