"""Rules of C++ whose compilations take their common headers precompiled.

Most of the time of a compilation goes into parsing Abseil, the standard library
and GoogleTest, so GCC parses them once per configuration. Each file still
includes what it uses: the fuzzers are built by Clang, without these headers.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_PACKAGE = "third_party/precompiled"

# The time of most tests under ASan is that of their compilation.
TEST_COPTS = select({
    "//%s:asan" % _PACKAGE: ["-O0"],
    "//conditions:default": [],
})

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    copy = ctx.actions.declare_file("gcc/" + ctx.file.header.basename)
    out = ctx.actions.declare_file("gcc/" + ctx.file.header.basename + ".gch")

    # Where the options of a compilation differ from these, GCC reads the copy.
    ctx.actions.symlink(output = copy, target_file = ctx.file.header)
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.header.path,
        output_file = out.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + ["-x", "c++-header"],
        include_directories = context.includes,
        quote_include_directories = depset(["."], transitive = [context.quote_includes]),
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    ctx.actions.run(
        mnemonic = "Precompile",
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        inputs = depset(
            [ctx.file.header] + ctx.files.textual,
            transitive = [context.headers, toolchain.all_files],
        ),
        outputs = [out],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
    )

    # GCC takes the header only where the same macros are defined. Those of the
    # libraries would be missing in a target that does not use them.
    return [
        DefaultInfo(files = depset([out])),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset([out, copy] + ctx.files.textual),
            defines = context.defines,
        )),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "textual": attr.label_list(allow_files = [".h"], doc = "what the header includes of this package"),
        "copts": attr.string_list(doc = "those of all who include it"),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _with_header(header, rule, srcs = [], copts = [], deps = [], **kwargs):
    if [src for src in srcs if src.endswith((".c", ".S"))]:
        return rule(srcs = srcs, copts = copts, deps = deps, **kwargs)
    rule(
        srcs = srcs,
        copts = copts + select({
            "//%s:clang" % _PACKAGE: [],
            "//conditions:default": ["-include", "$(BINDIR)/%s/gcc/%s.h" % (_PACKAGE, header)],
        }),
        deps = deps + select({
            "//%s:clang" % _PACKAGE: [],
            "//conditions:default": ["//%s:%s" % (_PACKAGE, header)],
        }),
        **kwargs
    )

def cc_library(**kwargs):
    _with_header("common", native.cc_library, **kwargs)

def cc_binary(**kwargs):
    _with_header("common", native.cc_binary, **kwargs)

def cc_test(copts = [], long = False, **kwargs):
    """`long`: it runs for longer than it compiles, so it is always optimised."""
    extra = [] if long else TEST_COPTS
    _with_header("common_test", native.cc_test, copts = copts + extra, **kwargs)
