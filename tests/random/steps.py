"""Hypothesis strategies for the steps of a random notebook: cells that change something, and calls."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from machine import Call

pick = st.sampled_from
MODULES = pick(
    [
        "root",
        "root.first",
        "root.first.linear",
        "root.blocks",
        "root.blocks[0]",
        "root.blocks[-1]",
        "root.heads['a']",
        "leaf",
        "leaf.linear",
        "other",
        "other.first",
        "mod",
    ]
)
LEAVES = pick(["root.first", "root.blocks[0]", "leaf", "other.first"])
LAYERS = pick(["root.first.linear", "root.heads['a']", "leaf.linear", "other.first.linear", "mod"])
ROOTS = pick(["root", "other"])
CLASSES = pick(["Base", "Leaf", "Root"])
NUMBERS = pick(["1", "2", "3", "7", "0.5", "2.5", "True", "torch.tensor(2.0)"])
VALUES = NUMBERS | pick(["None", "'text'", "'other'", "[1, 2]", "(1, 2)", "helper", "Mode.PLAIN", "torch.float64"])
SMALL = st.integers(1, 4)
NEW_MODULES = pick(
    [f"Leaf({n})" for n in ("", 2, 5)]
    + ["Counting()", "Broken()", "Broken(3)", "Choosy()", "Normed()", "nn.Identity()", "nn.Linear(4, 4)", "leaf", "mod"]
    + ["nn.Linear(4, 4, bias=False)", "nn.ReLU()", "nn.Tanh()", "nn.Dropout(1.0)", "nn.Sequential(Leaf(), Leaf(4))"]
)


def text(template, **parts):
    """Return a strategy for a cell: `template` with parts drawn for its names, which are written ``<name>``."""

    def fill(drawn):
        cell = template
        for name, part in drawn.items():
            cell = cell.replace(f"<{name}>", str(part))
        return cell

    return st.fixed_dictionaries(parts).map(fill)


# Hooks

_NAME = pick(["h1", "h2", "h3"])
_FORWARD = pick(["count", "Hook('<name>', <n>)", "made", "functools.partial(count)", "nothing"])
_MADE = """
def make(n):
    def made(module, args, output=None):
        log.append(f"made {n}")
        return None if output is None else output * n
    return made
made = make(<n>)
nothing = lambda *args: None
"""
hooks = st.one_of(
    text(
        _MADE + "handles['<name>'] = <module>.register_forward_hook(<hook>, prepend=<p>, always_call=<a>)",
        module=MODULES,
        hook=_FORWARD,
        name=_NAME,
        n=SMALL,
        p=st.booleans(),
        a=st.booleans(),
    ),
    text(
        "def hook(module, args, kwargs, output):\n"
        "    log.append(f'kw {sorted(kwargs)} <n>')\n"
        "    return output + <n>\n"
        "handles['<name>'] = <module>.register_forward_hook(hook, with_kwargs=True)",
        module=MODULES,
        name=_NAME,
        n=SMALL,
    ),
    text(
        "def hook(module, args):\n"
        "    log.append('pre <n>')\n"
        "    return (args[0] * <n>, *args[1:])\n"
        "handles['<name>'] = <module>.register_forward_pre_hook(hook, prepend=<p>)",
        module=MODULES,
        name=_NAME,
        n=SMALL,
        p=st.booleans(),
    ),
    text(
        "def hook(module, args, kwargs):\n"
        "    log.append(f'pre kw {sorted(kwargs)} <n>')\n"
        "    return tuple(each + <n> for each in args), kwargs\n"
        "handles['<name>'] = <module>.register_forward_pre_hook(hook, with_kwargs=True)",
        module=MODULES,
        name=_NAME,
        n=SMALL,
    ),
    text(
        "handles['<name>'] = <module>.<how>(count)",
        module=MODULES,
        name=_NAME,
        how=pick(["register_forward_hook", "register_forward_pre_hook"]),
    ),
    text("handles['<name>'].remove()", name=_NAME),
    text("<module>.<which>.clear()", module=MODULES, which=pick(["_forward_hooks", "_forward_pre_hooks"])),
)
backward_hooks = st.one_of(
    text(
        "def hook(module, grad_in, grad_out):\n"
        "    log.append('backward <n>')\n"
        "    return tuple(None if each is None else each * <n> for each in grad_in)\n"
        "handles['<name>'] = <module>.register_full_backward_hook(hook)",
        module=MODULES,
        name=_NAME,
        n=SMALL,
    ),
    text(
        "def hook(module, grad_out):\n"
        "    log.append('backward pre <n>')\n"
        "    return tuple(None if each is None else each * <n> for each in grad_out)\n"
        "handles['<name>'] = <module>.register_full_backward_pre_hook(hook)",
        module=MODULES,
        name=_NAME,
        n=SMALL,
    ),
    text("handles['<name>'].remove()", name=_NAME),
)
_GLOBAL = "from torch.nn.modules.module import *\nimport torch.nn.modules.module as m\n"
global_hooks = st.one_of(
    text(
        _MADE + _GLOBAL + "handles['g1'] = m.register_module_forward_hook(<hook>)", hook=_FORWARD, name=_NAME, n=SMALL
    ),
    text(_MADE + _GLOBAL + "handles['g2'] = m.register_module_forward_pre_hook(count)", name=_NAME, n=SMALL),
    text("handles['<g>'].remove()", g=pick(["g1", "g2"])),
)

# State

attributes = st.one_of(
    text("<leaf>.k = <value>", leaf=LEAVES, value=NUMBERS),
    text("<leaf>.k += 1", leaf=LEAVES),
    text("<leaf>.unread = <value>", leaf=LEAVES, value=VALUES),
    text("<module>.new_attribute = <value>", module=MODULES, value=VALUES),
    text("<leaf>.factor = <value>", leaf=LEAVES | ROOTS, value=NUMBERS),
    text("del <leaf>.<name>", leaf=LEAVES | ROOTS, name=pick(["factor", "unread", "act", "mix", "forward"])),
    text("<leaf>.act = <f>", leaf=LEAVES, f=pick(["F.relu", "torch.sin", "helper", "over(2)", "nn.Tanh()", "shift"])),
    text("<leaf>.table[<key>] = <value>", leaf=LEAVES, key=pick(["'bias'", "'unread'"]), value=NUMBERS),
    text("<leaf>.table = {'bias': <value>}", leaf=LEAVES, value=NUMBERS),
    text("<leaf>.steps.append(<value>)", leaf=LEAVES, value=NUMBERS),
    text("<leaf>.steps[0] = <value>", leaf=LEAVES, value=NUMBERS),
    text("<leaf>.steps.pop()", leaf=LEAVES),
    text("<leaf>.steps = <value>", leaf=LEAVES, value=pick(["()", "[1.0]", "(1.0, 3.0)", "range(2)", "{1: 2}"])),
    text("<root>.config.<name> = <value>", root=ROOTS, name=pick(["shift", "unread"]), value=NUMBERS),
    text("<root>.config.head = <value>", root=ROOTS, value=pick(["'a'", "'b'", "'missing'"])),
    text("<root>.config.mode = <value>", root=ROOTS, value=pick(["Mode.PLAIN", "Mode.DOUBLE", "None"])),
    text(
        "<root>.config = Config(head='a', mode=Mode.<mode>, shift=<value>)",
        root=ROOTS,
        value=NUMBERS,
        mode=pick(["PLAIN", "DOUBLE"]),
    ),
    text("config.<name> = <value>", name=pick(["gain", "shift", "unread"]), value=NUMBERS),
    text("config.mode = <value>", value=pick(["Mode.PLAIN", "Mode.DOUBLE", "None"])),
    text("del config.gain"),
    text("config.scale = <f>", f=pick(["helper", "torch.cos", "over(5)"])),
    text("<class>.<name> = <value>", **{"class": CLASSES}, name=pick(["factor", "unread"]), value=NUMBERS),
    text("Config.gain = <value>", value=NUMBERS),
    text("Strategy.power = <value>", value=NUMBERS),
    text("strategy.function = <f>", f=pick(["torch.sin", "torch.cos", "helper", "shift", "over(4)", "leaf"])),
    text("strategy.module = <m>", m=pick(["None", "leaf", "mod", "nn.Tanh()"])),
)
tensors = st.one_of(
    text("<layer>.weight.data.mul_(<n>)", layer=LAYERS, n=SMALL),
    text("with torch.no_grad(): <layer>.weight[0] = <n>", layer=LAYERS, n=SMALL),
    text("<layer>.weight = nn.Parameter(torch.full((4, 4), 0.<n>))", layer=LAYERS, n=SMALL),
    text("<layer>.weight = nn.Parameter(torch.full((<n>, 4), 0.5))\n<layer>.bias = None", layer=LAYERS, n=SMALL),
    text(
        "<layer>.weight.data = torch.full((4, 4), 0.<n>, dtype=torch.<d>)",
        layer=LAYERS,
        n=SMALL,
        d=pick(["float32", "float64"]),
    ),
    text("<layer>.bias = <value>", layer=LAYERS, value=pick(["None", "nn.Parameter(torch.ones(4))"])),
    text("<module>.requires_grad_(<flag>)", module=MODULES, flag=st.booleans()),
    text("<layer>.weight.requires_grad = <flag>", layer=LAYERS, flag=st.booleans()),
    text(
        "<leaf>.offset = <value>",
        leaf=LEAVES,
        value=pick(
            ["None", "torch.ones(4)", "torch.ones(1)", "torch.ones(4, dtype=torch.float64)", "torch.ones(1, 4)"]
        ),
    ),
    text("<leaf>.offset += <n>", leaf=LEAVES, n=SMALL),
    text("<module>.<to>()", module=MODULES, to=pick(["double", "float"])),
    text("SHIFT <op> <n>", op=pick(["+=", "*="]), n=SMALL),
    text("SHIFT = <value>", value=pick(["torch.ones(4)", "torch.zeros(1)", "2.0", "3"])),
    text("other.load_state_dict(root.state_dict())"),
    text("<one>.weight = <two>.weight", one=LAYERS, two=LAYERS),
)
modes = text("<module>.<mode>()", module=MODULES, mode=pick(["train", "eval"])) | text(
    "<leaf>.training = <flag>", leaf=LEAVES, flag=st.booleans()
)
submodules = st.one_of(
    text("<root>.first = <new>", root=ROOTS, new=NEW_MODULES),
    text("<leaf>.linear = <new>", leaf=LEAVES, new=NEW_MODULES),
    text("root.blocks.append(<new>)", new=NEW_MODULES),
    text("root.blocks.insert(0, <new>)", new=NEW_MODULES),
    text("root.blocks[0] = <new>", new=NEW_MODULES),
    text("del root.blocks[0]"),
    text("root.blocks = nn.ModuleList([<one>, <two>])", one=NEW_MODULES, two=NEW_MODULES),
    text("root.heads['<key>'] = <new>", key=pick(["a", "b", "c"]), new=NEW_MODULES),
    text("leaf = <new>", new=NEW_MODULES),
    text("other = Root()"),
    text("root, other = other, root"),
    text("<leaf>.__class__ = <class>", leaf=LEAVES, **{"class": pick(["Leaf", "Counting", "Broken", "Choosy"])}),
)

# Definitions

_BODY = pick(["x * <n>", "x + <n>", "x * gain + <n>", "helper(x) * <n>", "torch.sin(x) - <n>", "x * SCALE + <n>"])
_METHOD = pick(["x * <n>", "x + self.factor + <n>", "self.squash(x) * <n>", "x.sin() + <n>"])
_FORWARD_BODY = pick(["x * <n>", "self.mix(x) + <n>", "self.linear(x) * <n>", "self.first(x) + <n>"])
functions = st.one_of(
    text("def helper(x, gain=1.<n>, *, bias=0.25):\n    return x * gain + bias", n=SMALL),
    text("def helper(x, gain=1.5, *, bias=0.25):\n    return x * gain + bias + SCALE"),
    text("def helper(x, **more):\n    return x + <n>", n=SMALL),
    text("helper.__code__ = (lambda x, gain=0, *, bias=0: x * gain - <n>).__code__", n=SMALL),
    text("helper.__defaults__ = (<value>,)", value=NUMBERS),
    text("helper.__kwdefaults__ = {'bias': <value>}", value=NUMBERS),
    text("def picky(x):\n    log.append('p<n>')\n    return x * <n>", n=SMALL),
    text("shift.rebind(<value>)", value=NUMBERS),
    text("shift = over(<value>)", value=NUMBERS),
    text("run = after(<f>)", f=pick(["helper", "shift", "leaf", "root", "over(3)", "lambda x: x * 4", "part", "shim"])),
    text("shim = traced(<f>)", f=pick(["helper", "picky", "over(3)", "lambda x: x * 4", "run"])),
    text(
        "part = functools.partial(<f>)",
        f=pick(
            ["helper", "helper, gain=2.0", "helper, bias=3", "over(2)", "apply, leaf", "configured, config", "shift"]
        ),
    ),
    text("strategy = Strategy(<f>)", f=pick(["helper", "shift", "lambda x: x - 1", "torch.cos"])),
    text("SCALE = <value>", value=NUMBERS),
    text("TABLE['gain'] = <value>", value=NUMBERS),
    text("TABLE['mode'] = <value>", value=pick(["'plain'", "'bad'", "'helped'"])),
    text("WORDS.<change>", change=pick(["append('x')", "pop()", "clear()"])),
)
methods_of_root = st.one_of(
    text(
        "def forward(self, x, scale=None, *, head=None):\n    return " + "self.first(x) * <n>\nRoot.forward = forward",
        n=SMALL,
    ),
    text("def encode(self, x):\n    return self.first(x) + <n>\nRoot.encode = encode", n=SMALL),
    text("def __call__(self, x):\n    return self.function(x) + <n>\nStrategy.__call__ = __call__", n=SMALL),
    text("def act(self, x, n=1):\n    return self.function(x) * n * <n>\nStrategy.act = act", n=SMALL),
    text("Root.scaled = classmethod(lambda cls, x: x - <n>)", n=SMALL),
    text("def scale(self, x):\n    return x + <n>\nConfig.scale = scale", n=SMALL),
    text("<leaf>.mix = lambda x: x - <n>", leaf=LEAVES | ROOTS, n=SMALL),
    text("<leaf>.mix = types.MethodType(lambda self, x: x - self.factor * <n>, <leaf>)", leaf=LEAVES, n=SMALL),
    text("<leaf>.forward = lambda x, **more: x * <n>", leaf=LEAVES | ROOTS, n=SMALL),
    text("strategy.act = lambda x, n=1: x * <n>", n=SMALL),
)
methods_of_children = st.one_of(
    text("def forward(self, x, **more):\n    return self.linear(x) * <n>\nLeaf.forward = forward", n=SMALL),
    text(
        "def mix(self, x):\n    return x - self.factor * <n>\n<class>.mix = mix",
        n=SMALL,
        **{"class": pick(["Base", "Leaf", "Root", "Broken"])},
    ),
    text("Base.squash = staticmethod(lambda x: x * <n>)", n=SMALL),
    text("Base.shift = property(lambda self: 0.<n>)", n=SMALL),
    text("Base.shift = 0.<n>", n=SMALL),
    text("del Leaf.mix"),
    text("class Leaf(Leaf):\n    def mix(self, x):\n        return x + <n>\nleaf.__class__ = Leaf", n=SMALL),
    text("Leaf.forward.__code__ = (lambda self, x, *, twice=False: self.linear(x) + <n>).__code__", n=SMALL),
    text("Base.mix.__code__ = (lambda self, x: x + <n>).__code__", n=SMALL),
)

# Calls

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
            "configured": ["config, x", "root.config, x", "x=x, config=config"],
            "total": ["[x, y]", "(x, y, x)", "{'a': x, 'b': y}", "[x]", "parts=[x, x]"],
            "picky": ["x"],
            "Root.scaled": ["x"],
            "torch.sin": ["x"],
            "(lambda x: x * SCALE)": ["x"],
            "(lambda f, x: f(x) + 1)": ["leaf, x", "helper, x", "strategy, x", "part, x", "run, x"],
        }.items()
    ]
)
calls = st.builds(
    lambda target, **more: Call(*target, **more),
    TARGETS,
    way=pick(["region", "region", "compile", "kept"]),
    shape=pick([(2, 4), (2, 4), (2, 4), (3, 4), (5, 4), (1, 4), (2, 5), (0, 4)]),
    dtype=pick([torch.float32] * 5 + [torch.float64, torch.int64]),
    grad=pick(["plain", "plain", "input", "input", "no_grad", "inference", "autocast"]),
    backend=pick(["eager"] * 6 + ["aot_eager"]),
)
