"""What the randomized tests and the counts share: targets and what makes them, and the two ways to call those."""

from __future__ import annotations

import functools

import ipy_dynwrap


def written(i):
    """Return a function with a code object of its own."""
    namespace = {"__name__": __name__}
    exec(f"def step(x): return x * {i} + 2", namespace)
    return namespace["step"]


def over(value):
    def shift(x):
        return x * value + 1

    return shift


def after(function):
    def run(x):
        return function(x) - 1

    return run


def traced(function):
    @functools.wraps(function)
    def shim(*args, **kwargs):
        return function(*args, **kwargs)

    return shim


class Settings:
    def __init__(self, **given):
        self.__dict__.update(given)


def run_with(settings, x):
    return x * len(settings.word) + (1 if settings.kind == "a" else 2)


class Applied:
    """A callable object; `unread` is what its name says."""

    def __init__(self, function, word="www", unread=0):
        self.function = function
        self.word = word
        self.unread = unread

    def __call__(self, x):
        return self.function(x) * len(self.word)

    def act(self, x):
        return self.function(x) + len(self.word)


def run_module(module, x):
    return module(x) * 2


def by_compile(include, **options):
    """Return what calls a target compiled; it is compiled anew for each call."""

    def call(target, /, *args):
        return ipy_dynwrap.compile(target, **options)(*args)

    return call


def by_region(include, **options):
    """Return what calls a target in a region of its own, in which also the functions of this file are routed."""

    def call(target, /, *args):
        with ipy_dynwrap.region(include=(include, __name__), **options):
            return target(*args)

    return call


WAYS = {"compile": by_compile, "region": by_region}
