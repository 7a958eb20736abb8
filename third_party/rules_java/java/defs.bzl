"""Offline stand-in for @rules_java: Bazel 4 has these rules built in."""
java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
