"""Fuzz targets that are also ordinary tests."""

def fuzz_target(name, srcs, deps = [], replay = True):
    """Makes a libFuzzer binary and a test that replays its corpus.

    The corpus of X_fuzz is //tests/fuzz:X_corpus, the inputs in corpus/X, where
    `./dev fuzz` looks for them. None is larger than it must be.

    Args:
      name: X_fuzz, of the binary, built by `bazel build --config=fuzz`; the test
        is called X_fuzz_replay_test and needs no fuzzer.
      srcs: define LLVMFuzzerTestOneInput().
      deps: of both.
      replay: False leaves the test and the corpus out: the program
        X_fuzz_replay remains.
    """
    corpus = "//tests/fuzz:%s_corpus" % name[:-len("_fuzz")]
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        data = [corpus] if replay else [],
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
        args = ["$(rootpaths %s)" % corpus],
        data = [corpus],
        deps = deps + ["//tests/fuzz:replay_main"],
    )
