"""Cells that add hooks of every kind, remove them, and add them again."""

from __future__ import annotations

from hypothesis import strategies as st
from words import LAYERS, MODULES, SMALL, pick, text

NAME = pick(["h1", "h2", "h3"])
FORWARD = pick(["count", "Hook('<name>', <n>)", "made", "functools.partial(count)", "nothing", "Hook('h', 2).__call__"])
# What was registered stays on the shelf, for a later cell to register it again.
MADE = """
def make(n):
    def made(module, args, output=None):
        log.append(f"made {n}")
        return None if output is None else output * n
    return made
made = make(<n>)
nothing = lambda *args: None
"""
FORWARD_WITH_KWARGS = """
def hook(module, args, kwargs, output):
    log.append(f'kw {sorted(kwargs)} <n>')
    return output + <n>
"""
PRE = """
def hook(module, args):
    log.append('pre <n>')
    return (args[0] * <n>, *args[1:])
"""
PRE_WITH_KWARGS = """
def hook(module, args, kwargs):
    log.append(f'pre kw {sorted(kwargs)} <n>')
    return tuple(each + <n> for each in args), kwargs
"""
RAISING = """
def hook(module, args, output=None):
    log.append('raising <n>')
    raise Refused(<n>)
"""
BACKWARD = """
def hook(module, grad_in, grad_out):
    log.append('backward <n>')
    return tuple(None if each is None else each * <n> for each in grad_in)
"""
BACKWARD_PRE = """
def hook(module, grad_out):
    log.append('backward pre <n>')
    return tuple(None if each is None else each * <n> for each in grad_out)
"""
ONCE = """
def hook(module, args, output=None):
    log.append('once <n>')
    handles['<name>'].remove()
"""
ADDING = """
def added(module, args, output=None):
    log.append('added <n>')
def hook(module, args, output=None):
    module.register_forward_hook(added)
    handles['<name>'].remove()
"""
LOOKING = """
def hook(module, *grads):
    log.append(f'looking {type(module).__name__} <n>')
"""


def on_module(hook, register):
    """Return a strategy for a cell that defines `hook` and registers it on a module."""
    cell = hook + "shelf['<name>'] = hook\n" + f"handles['<name>'] = <module>.{register}"
    return text(cell, module=MODULES, name=NAME, n=SMALL, p=st.booleans(), a=st.booleans())


hooks = st.one_of(
    text(
        MADE + "shelf['<name>'] = <hook>\n"
        "handles['<name>'] = <module>.register_forward_hook(shelf['<name>'], prepend=<p>, always_call=<a>)",
        module=MODULES,
        hook=FORWARD,
        name=NAME,
        n=SMALL,
        p=st.booleans(),
        a=st.booleans(),
    ),
    on_module(FORWARD_WITH_KWARGS, "register_forward_hook(hook, with_kwargs=True, prepend=<p>, always_call=<a>)"),
    on_module(PRE, "register_forward_pre_hook(hook, prepend=<p>)"),
    on_module(PRE_WITH_KWARGS, "register_forward_pre_hook(hook, with_kwargs=True, prepend=<p>)"),
    on_module(ONCE, "register_forward_hook(hook, prepend=<p>)"),
    on_module(ONCE, "register_forward_pre_hook(hook, prepend=<p>)"),
    on_module(ADDING, "register_forward_hook(hook)"),
    on_module(RAISING, "register_forward_hook(hook, always_call=<a>)"),
    on_module(RAISING, "register_forward_pre_hook(hook)"),
    text(
        "handles['<name>'] = <module>.<how>(count)",
        module=MODULES,
        name=NAME,
        how=pick(["register_forward_hook", "register_forward_pre_hook"]),
    ),
    text(
        "handles['<name>'].remove()\nhandles['<name>'] = <module>.register_forward_hook(shelf['<name>'])",
        module=MODULES,
        name=NAME,
    ),
    text("handles['<name>'] = <module>.register_forward_hook(shelf['<again>'])", module=MODULES, name=NAME, again=NAME),
    text("handles['<name>'].remove()", name=NAME),
    text("shelf['<name>'].value = <n>", name=NAME, n=SMALL),
    text("Hook.__call__ = lambda self, module, args, output=None: log.append(f'{self.name} <n>')", n=SMALL),
    text("shelf['<name>'].__code__ = (lambda *args: None).__code__", name=NAME),
    text("<module>.<which>.clear()", module=MODULES, which=pick(["_forward_hooks", "_forward_pre_hooks"])),
)
backward_hooks = st.one_of(
    on_module(BACKWARD, "register_full_backward_hook(hook, prepend=<p>)"),
    on_module(BACKWARD_PRE, "register_full_backward_pre_hook(hook, prepend=<p>)"),
    on_module(LOOKING, "register_full_backward_hook(hook)"),
    on_module(LOOKING, "register_full_backward_pre_hook(hook)"),
    text(
        "handles['<name>'].remove()\nhandles['<name>'] = <module>.register_full_backward_hook(shelf['<name>'])",
        module=MODULES,
        name=NAME,
    ),
    text(
        "def hook(grad):\n    log.append('grad <n>')\n    return grad * <n>\n"
        "handles['<name>'] = <layer>.weight.register_hook(hook)",
        layer=LAYERS,
        name=NAME,
        n=SMALL,
    ),
    text(
        "handles['<name>'] = <layer>.weight.register_post_accumulate_grad_hook(lambda w: log.append('accumulated'))",
        layer=LAYERS,
        name=NAME,
    ),
    text("handles['<name>'].remove()", name=NAME),
)


def on_all(hook, register):
    """Return a strategy for a cell that defines `hook` and registers it for all modules."""
    cell = hook + f"handles['<g>'] = nn_module.{register}"
    return text(cell, g=pick(["g1", "g2"]), n=SMALL, a=st.booleans())


global_hooks = st.one_of(
    text(
        MADE + "handles['<g>'] = nn_module.register_module_forward_hook(<hook>, always_call=<a>)",
        hook=FORWARD,
        name=NAME,
        g=pick(["g1", "g2"]),
        n=SMALL,
        a=st.booleans(),
    ),
    on_all(FORWARD_WITH_KWARGS, "register_module_forward_hook(hook, with_kwargs=True, always_call=<a>)"),
    on_all("", "register_module_forward_pre_hook(count)"),
    on_all(PRE, "register_module_forward_pre_hook(hook)"),
    on_all(LOOKING, "register_module_full_backward_hook(hook)"),
    on_all(BACKWARD, "register_module_full_backward_hook(hook)"),
    on_all(LOOKING, "register_module_full_backward_pre_hook(hook)"),
    on_all(BACKWARD_PRE, "register_module_full_backward_pre_hook(hook)"),
    text("handles['<g>'].remove()", g=pick(["g1", "g2"])),
)
