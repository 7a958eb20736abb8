"""The dependency direction of ARCHITECTURE.md as a test."""

_Layer = provider(
    doc = "Everything that a target is built from.",
    fields = {"edges": "depset of (user label, used label) strings"},
)

_RULE_ATTRS = ["deps", "implementation_deps"]

# Makes compilations faster and gives no file anything to include: each file is
# also compiled without it.
_PRECOMPILED = "//third_party/precompiled:"
_FILE_ATTRS = ["srcs", "hdrs", "textual_hdrs"]

# The same form of a label in every Bazel version: //package:name,
# @repo//p:name.
def _name(label):
    text = str(label)
    for prefix in ["@@//", "@//"]:
        if text.startswith(prefix):
            return text[len(prefix) - 2:]
    return text.replace("@@", "@")

def _layer_aspect_impl(target, ctx):
    user = _name(target.label)
    used = []
    inherited = []
    for attr in _RULE_ATTRS:
        for dep in getattr(ctx.rule.attr, attr, None) or []:
            if _name(dep.label).startswith(_PRECOMPILED):
                continue
            used.append(dep.label)
            if _Layer in dep:
                inherited.append(dep[_Layer].edges)
    for attr in _FILE_ATTRS:
        used.extend([f.label for f in getattr(ctx.rule.attr, attr, None) or []])
    edges = [(user, _name(label)) for label in used]
    return [_Layer(edges = depset(edges, transitive = inherited))]

_layer_aspect = aspect(
    implementation = _layer_aspect_impl,
    attr_aspects = _RULE_ATTRS,
)

# //a/b allows package a/b and all packages below it; @x allows repository x.
def _is_allowed(label, allowed):
    package = label.split(":")[0]
    for prefix in allowed:
        if prefix.startswith("@"):
            if label.startswith(prefix + "//"):
                return True
        elif package == prefix or package.startswith(prefix + "/"):
            return True
    return False

def _layer_test_impl(ctx):
    allowed = ctx.attr.allowed
    bad = {}
    for target in ctx.attr.targets:
        if not _is_allowed(_name(target.label), allowed):
            bad["%s is not within its own layer" % _name(target.label)] = None
        for user, used in target[_Layer].edges.to_list():
            # Everything beyond a forbidden edge is forbidden: name only the
            # edge.
            if _is_allowed(user, allowed) and not _is_allowed(used, allowed):
                bad["%s uses %s" % (user, used)] = None
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    lines = ["#!/bin/sh"]
    lines += ["echo '%s'" % line for line in bad.keys()]
    if bad:
        lines.append("echo 'allowed here: %s'" % " ".join(allowed))
    failed = bool(bad) != ctx.attr.must_fail
    lines.append("exit %d" % (1 if failed else 0))
    ctx.actions.write(script, "\n".join(lines) + "\n", is_executable = True)
    return [DefaultInfo(executable = script)]

layer_test = rule(
    implementation = _layer_test_impl,
    doc = "Fails when anything that `targets` are built from, at whatever " +
          "depth, lies outside `allowed`.",
    attrs = {
        "targets": attr.label_list(aspects = [_layer_aspect], mandatory = True),
        "allowed": attr.string_list(
            mandatory = True,
            doc = "package prefixes (//transport/wire) and repositories (@isal)",
        ),
        "must_fail": attr.bool(doc = "for the test of this rule itself"),
    },
    test = True,
)
