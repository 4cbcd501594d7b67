"""Calls, in every way, with inputs of every kind."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from machine import Call
from words import pick

TARGETS = st.one_of(
    *[
        st.tuples(st.just(target), pick(arguments))
        for target, arguments in {
            "root": ["x", "x=x", "x, scale=2", "x, 3", "x, scale=y", "x, head='b'", "x, 0.5", "x[:1]", "x, *[2]"],
            "other": ["x", "x, 2"],
            "leaf": ["x", "x, twice=True", "x.t()", "x=x"],
            "mod": ["x", "input=x", "x[None]"],
            "root.encode": ["x", "x=x"],
            "helper": ["x", "x, 2.0", "x, gain=3.0", "x=x, bias=1", "*[x]", "x, gain=y"],
            "shift": ["x", "x=x"],
            "run": ["x"],
            "shim": ["x", "x=x"],
            "part": ["x"],
            "strategy": ["x", "x=x"],
            "strategy.act": ["x", "x, 2", "x, n=3"],
            "apply": [
                "leaf, x",
                "root, x",
                "mod, x",
                "strategy, x",
                "helper, x",
                "module=leaf, x=x",
                "leaf, x, twice=True",
            ],
            "tied": ["x"],
            "tied.stack": ["x", "input=x"],
            "tied.forward": ["x"],
            "root.first": ["x", "x, twice=True"],
            "root.heads['a']": ["x"],
            "root.between": ["x", "x, low=1", "x, high=1, low=0", "x, low=0, high=1"],
            "root.frozen": ["x"],
            "root.mix": ["x"],
            "root.scaled": ["x"],
            "leaf.squash": ["x"],
            "strategy.halved": ["x"],
            "strategy.fast": ["x", "x, 3", "x, n=0.5"],
            "decorated": ["x", "x, 3", "x, plus=x", "x, n=0.5"],
            "switched": ["x, True", "x, False"],
            "disabling": ["x", "x, True"],
            "inferred": ["x"],
            "uncast": ["x"],
            "tapped": ["x"],
            "planned": ["plan, x", "fixed, x", "plan=plan, x=x", "config, x"],
            "plan.act": ["x"],
            "slotted": ["x"],
            "ordered": ["x, a=1, bb=2", "x, bb=2, a=1", "x, **{'ccc': 0.5}", "a=1, x=x, bb=y", "bb=y, a=1, x=x"],
            "spread": ["x", "x, 2", "x, 2, 3", "x, 2, y, 4", "x, flag=True", "x, k=4", "x, *[1, 2], **{'flag': True}"],
            "split": ["x"],
            "joined": ["Pair(x, y)", "split(x)", "Pair(right=x, left=y)"],
            "gathered": ["x", "x, 2", "x, n=0"],
            "changed": ["x, []", "x, WORDS", "x=x, into=plan.names"],
            "itself": ["x", "y"],
            "cubed": ["x"],
            "bump": ["x"],
            "noise": ["x"],
            "careful": ["leaf, x", "picky, x", "root, x", "Refusing(2), x"],
            "within": ["x"],
            "shelf['h1']": ["mod, (x,), x"],
            "functools.partial(apply, leaf)": ["x", "x=x"],
            "nn.Sequential(leaf, mod)": ["x"],
            "configured": ["config, x", "root.config, x", "x=x, config=config"],
            "total": ["[x, y]", "(x, y, x)", "{'a': x, 'b': y}", "[x]", "parts=[x, x]", "(p * 2 for p in [x, y])"],
            "picky": ["x"],
            "Root.scaled": ["x"],
            "torch.sin": ["x"],
            "(lambda x: x * SCALE)": ["x"],
            "(lambda f, x: f(x) + 1)": ["leaf, x", "helper, x", "strategy, x", "part, x", "run, x", "decorated, x"],
        }.items()
    ]
)
calls = st.builds(
    lambda target, **more: Call(*target, **more),
    TARGETS,
    way=pick(["region", "region", "compile", "kept"]),
    shape=pick([(2, 4)] * 6 + [(3, 4), (5, 4)] * 2 + [(1, 4), (2, 5), (0, 4), (4,), (2, 3, 4)]),
    dtype=pick([torch.float32] * 16 + [torch.float64, torch.int64] * 2 + [torch.bfloat16, torch.complex64, torch.bool]),
    grad=pick(["plain", "input"] * 4 + ["no_grad", "inference", "autocast"] * 2 + ["half", "default float64"]),
    backend=pick(["eager"] * 6 + ["aot_eager"]),
    dynamic=pick([None] * 6 + [True, False]),
    layout=pick(["contiguous"] * 4 + ["transposed", "sliced", "expanded"]),
)
