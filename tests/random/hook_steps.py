"""Cells that add hooks of every kind, remove them, and add them again."""

from __future__ import annotations

from hypothesis import strategies as st
from words import LAYERS, MODULES, SMALL, pick, text

NAME = pick(["h1", "h2", "h3"])
NAME_FOR_ALL = pick(["g1", "g2"])
FORWARD = pick(["count", "Hook('<name>', <n>)", "made", "functools.partial(count)", "nothing", "Hook('h', 2).__call__"])
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
GRADIENT = """
def hook(grad):
    log.append('grad <n>')
    return grad * <n>
"""
ACCUMULATED = """
def hook(parameter):
    log.append('accumulated <n>')
"""
GRADIENTS = """
def hook(grads):
    log.append(f'gradients {[each is not None for each in grads]} <n>')
"""


def registering(register, hook="", made="hook", on="<module>", names=NAME):
    """Return a strategy for a cell that makes a hook and registers it.

    The hook stays on the shelf, and how it was registered beside it, for a later cell to register it again.

    Parameters
    ----------
    register
        The call of the method or function that registers, with the hook as ``it``.
    hook, made
        Text that defines the hook, and an expression for it.
    on
        What to register it on.
    names
        Strategy for the name under which the hook is kept.
    """
    cell = (
        f"{hook}shelf['<name>'] = {made}\n"
        f"again['<name>'] = lambda it: {on}.{register}\n"
        "handles['<name>'] = again['<name>'](shelf['<name>'])"
    )
    parts = {"name": names, "module": MODULES, "layer": LAYERS, "other": LAYERS, "made": FORWARD, "n": SMALL}
    return text(cell, **parts, p=st.booleans(), a=st.booleans())


def on_all(register, hook="", made="hook"):
    return registering(register, hook, made, on="nn_module", names=NAME_FOR_ALL)


def removing(names):
    """Return a strategy for cells that remove a hook, add it again, and do both at once."""
    remove, add = "handles['<name>'].remove()", "handles['<name>'] = again['<name>'](shelf['<name>'])"
    return text("<how>", how=pick([remove, remove, add, f"{remove}\n{add}"]), name=names)


hooks = st.one_of(
    registering("register_forward_hook(it, prepend=<p>, always_call=<a>)", MADE, "<made>"),
    registering(
        "register_forward_hook(it, with_kwargs=True, prepend=<p>, always_call=<a>)",
        FORWARD_WITH_KWARGS,
    ),
    registering("register_forward_pre_hook(it, prepend=<p>)", PRE),
    registering("register_forward_pre_hook(it, with_kwargs=True, prepend=<p>)", PRE_WITH_KWARGS),
    registering("register_forward_hook(it, prepend=<p>)", ONCE),
    registering("register_forward_pre_hook(it, prepend=<p>)", ONCE),
    registering("register_forward_hook(it)", ADDING),
    registering("register_forward_hook(it, always_call=<a>)", RAISING),
    registering("register_forward_pre_hook(it)", RAISING),
    registering("register_forward_hook(it)", made="count"),
    registering("register_forward_pre_hook(it)", made="count"),
    text("handles['<name>'] = again['<name>'](shelf['<other>'])", name=NAME, other=NAME),
    removing(NAME),
    text("shelf['<name>'].value = <n>", name=NAME, n=SMALL),
    text("Hook.__call__ = lambda self, module, args, output=None: log.append(f'{self.name} <n>')", n=SMALL),
    text("shelf['<name>'].__code__ = (lambda *args: None).__code__", name=NAME),
    text("<module>.<which>.clear()", module=MODULES, which=pick(["_forward_hooks", "_forward_pre_hooks"])),
)
backward_hooks = st.one_of(
    registering("register_full_backward_hook(it, prepend=<p>)", BACKWARD),
    registering("register_full_backward_pre_hook(it, prepend=<p>)", BACKWARD_PRE),
    registering("register_full_backward_hook(it)", LOOKING),
    registering("register_full_backward_pre_hook(it)", LOOKING),
    registering("register_backward_hook(it)", LOOKING),
    registering("register_hook(it)", GRADIENT, on="<layer>.weight"),
    registering("register_post_accumulate_grad_hook(it)", ACCUMULATED, on="<layer>.weight"),
    registering("register_multi_grad_hook((<layer>.weight, <other>.weight), it)", GRADIENTS, on="torch.autograd.graph"),
    removing(NAME),
    text("<module>.<which>.clear()", module=MODULES, which=pick(["_backward_hooks", "_backward_pre_hooks"])),
)
global_hooks = st.one_of(
    on_all("register_module_forward_hook(it, always_call=<a>)", MADE, "<made>"),
    on_all("register_module_forward_hook(it, with_kwargs=True, always_call=<a>)", FORWARD_WITH_KWARGS),
    on_all("register_module_forward_pre_hook(it)", made="count"),
    on_all("register_module_forward_pre_hook(it)", PRE),
    on_all("register_module_full_backward_hook(it)", LOOKING),
    on_all("register_module_full_backward_hook(it)", BACKWARD),
    on_all("register_module_full_backward_pre_hook(it)", LOOKING),
    on_all("register_module_full_backward_pre_hook(it)", BACKWARD_PRE),
    removing(NAME_FOR_ALL),
)
