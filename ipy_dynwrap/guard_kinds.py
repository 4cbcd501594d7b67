"""Every kind of guard that torch makes: the field that it becomes in a key, or why it becomes none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "UNKEYED", "GuardKind"]


@dataclass(frozen=True, slots=True)
class GuardKind:
    """What some guards of torch's look at.

    Parameters
    ----------
    torch
        The methods of torch's ``GuardBuilder`` that make such guards; none for guards that are made elsewhere.
    what
        What they look at, in the user's words.
    aspect
        The aspects of `Field` that they pin, in words; None if they are no part of a key.
    reason
        Why they are no part of a key; None if they are.
    """

    torch: tuple[str, ...]
    what: str
    aspect: str | None = None
    reason: str | None = None


KINDS: tuple[GuardKind, ...] = (
    GuardKind(("TYPE_MATCH", "FAKE_SCRIPT_TYPE_MATCH"), "the type of an object", "type"),
    GuardKind(
        (
            "ID_MATCH",
            "FUNCTION_MATCH",
            "CLASS_MATCH",
            "MODULE_MATCH",
            "CLOSURE_MATCH",
            "BUILTIN_MATCH",
            "NN_MODULE",
        ),
        "which function, class, or other object it is",
        "identity",
    ),
    GuardKind(
        ("EQUALS_MATCH", "CONSTANT_MATCH", "CONSTANT_SUBCLASS_MATCH", "BOOL_MATCH", "NONE_MATCH"),
        "a number, text, True, False or None, and tuples, lists and sets of them",
        "value",
    ),
    GuardKind(("HASATTR", "NOT_PRESENT_IN_GENERIC_DICT"), "whether there is an attribute", "attribute, has"),
    GuardKind(
        ("DICT_CONTAINS", "DICT_NOT_CONTAINS", "SET_CONTAINS", "SET_NOT_CONTAINS"),
        "whether a key or a member is there",
        "has",
    ),
    GuardKind(("SEQUENCE_LENGTH", "EMPTY_NN_MODULE_HOOKS_DICT"), "how many items or hooks there are", "length"),
    GuardKind(
        ("DICT_KEYS_MATCH", "MAPPING_KEYS_CHECK"), "the keys of a dictionary, and their order", "length, keys, value"
    ),
    GuardKind(
        ("TENSOR_MATCH",),
        "a tensor's dtype, device, requires_grad and fixed sizes and strides",
        "dtype, device, requires_grad, rank, size, stride",
    ),
    GuardKind(
        (),
        "a tensor's layout, conjugation, inference mode, and marks of dynamic dimensions",
        reason="there are few of them: they share a wrapper, under its limit",
    ),
    GuardKind(
        (),
        "a tensor, or a number or text, that the call passes",
        reason="an input: it may be another one at each call, and torch may make it dynamic",
    ),
    GuardKind((), "global variables, and modules that are imported", reason="they are the same for all that is called"),
    GuardKind(
        (),
        "the methods of classes, and hooks for all modules",
        reason="they belong to the class or to torch, and one value is left when they change",
    ),
    GuardKind(
        ("SHAPE_ENV",),
        "sizes that depend on each other, or lie within bounds",
        reason="a relation between values; a size that torch made dynamic has no value that it requires",
    ),
    GuardKind(
        ("DUPLICATE_INPUT",),
        "whether two inputs are one object, or share memory",
        reason="a relation between values",
    ),
    GuardKind(
        (
            "GLOBAL_STATE",
            "GRAD_MODE",
            "DETERMINISTIC_ALGORITHMS",
            "DEFAULT_DEVICE",
            "TORCH_FUNCTION_STATE",
            "FUNCTORCH_STACK_MATCH",
            "DUAL_LEVEL",
            "AUTOGRAD_SAVED_TENSORS_HOOKS",
            "FSDP_TRAINING_STATE",
        ),
        "grad mode, autocast, default dtype and device, and other global state of torch",
        reason="it belongs to torch, not to what is called",
    ),
    GuardKind(
        ("NOT_NONE_MATCH", "WEAKREF_ALIVE"),
        "that something is not None, or not gone",
        reason="it only says what an object is not",
    ),
    GuardKind(
        ("TENSOR_SUBCLASS_METADATA_MATCH", "DTENSOR_SPEC_MATCH", "OPAQUE_OBJ_GUARD_FN_MATCH"),
        "what a tensor subclass, or an opaque object, says of itself",
        reason="its class's own code compares it, and torch does not tell the value",
    ),
    GuardKind(
        (),
        "an object of a class of one's own as the key of a dictionary",
        reason="its class's own == compares it",
    ),
    GuardKind(
        ("TUPLE_ITERATOR_LEN", "RANGE_ITERATOR_MATCH", "COUNT_ITERATOR_MATCH"),
        "how far an iterator has come",
        reason="the call that reads it moves it on",
    ),
    GuardKind(
        ("DICT_VERSION", "DISPATCH_KEY_SET_MATCH"),
        "dictionaries and dispatch keys of torch's own",
        reason="they are torch's, and seen in no attribute of the user's",
    ),
)
"""All kinds; each method of torch's is in one of them."""

UNKEYED: tuple[tuple[str, str], ...] = tuple((kind.what, kind.reason) for kind in KINDS if kind.reason is not None)
"""What is no part of any key, and why."""
