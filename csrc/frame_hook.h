/* A PEP 523 frame evaluator that hands chosen calls to Python, and counts runs of chosen code.
 *
 * Installed, it is the interpreter's evaluator and chains to the one that it found. For a frame of a thread and context
 * in which a region is on, a slot on the code object says whether the call passes or is routed; Python is asked once
 * per code object and policy number. A region routes the outermost call only: while Python decides or a routed call
 * runs, all frames of that thread pass, but for calls of one code object that may be routed inside (hook_route_inner).
 *
 * All functions need the GIL. Functions that return PyObject * return a new reference, or NULL with an exception set;
 * functions that return int return 0, or -1 with an exception set. Arguments are borrowed. Where the hook cannot work,
 * hook_enter raises RuntimeError with the sentence of hook_unavailable(); the others do nothing, and hook_watch calls.
 */
#ifndef IPY_DYNWRAP_FRAME_HOOK_H
#define IPY_DYNWRAP_FRAME_HOOK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the policy says about a code object. */
enum hook_verdict {
    HOOK_PASS = 0,          /* runs as it is; what it calls may be routed */
    HOOK_ROUTE = 1,         /* each call is routed */
    HOOK_ROUTE_CARRIER = 2, /* a call is routed if an argument is, or holds, an instance of the carrier type */
    HOOK_BARRIER = 3,       /* runs as it is; nothing that it calls is routed */
};

/* Why the hook cannot work here, in one sentence without a full stop; NULL if it can. Static, never freed. Raises
 * nothing. */
const char *hook_unavailable(void);

/* Prepare the process's hook: once, when the module is loaded. Nothing happens where the hook is unavailable. */
int hook_init(void);

/* The two objects that a route callable may return instead of a result. */
PyObject *hook_decline(void);     /* run the frame as it is, and go on watching */
PyObject *hook_decline_all(void); /* run the frame as a barrier */

/* The type of the objects that hook_enter returns. */
PyObject *hook_region_type(void);

/* Switch a region on for this thread and context (and contexts copied from it, on this thread).
 *   decide(code, function) -> a verdict; trace and profile functions do not see it run
 *   route(function, args, kwargs) -> the result of the call, or one of the two objects above
 *   carrier: a type; policy: an int of 0 or more, the same as long as decide would answer the same
 * The region holds references to all until it is left. An error of decide is written as unraisable and the call passes;
 * an exception that is no Exception (KeyboardInterrupt) becomes the call's. An exception of route becomes the call's.
 */
PyObject *hook_enter(PyObject *decide, PyObject *route, PyObject *carrier, PyObject *policy);

/* Switch a region off: everywhere, from any thread and context. Nothing happens if it is off already. A region that is
 * freed without this is switched off as well. */
int hook_leave(PyObject *region);

/* Route calls of `code` inside of routed calls and watches, in any thread, from now on: not by their region but by
 * callable(function, args, kwargs), which returns what a route of hook_enter returns. Not inside of calls of one of
 * `barriers`, an iterable of code objects. It replaces the callable of an earlier call; the marks add up. */
int hook_route_inner(PyObject *callable, PyObject *code, PyObject *barriers);

/* Call callable(*args, **kwargs) with the evaluator in place and no region routing. kwargs may be NULL or None. */
PyObject *hook_watch(PyObject *callable, PyObject *args, PyObject *kwargs);

/* Count and time the runs of a code object from now on, wherever the evaluator sees them, in any thread. Such code is
 * not routed. */
int hook_track(PyObject *code);

/* (runs, nanoseconds) of a tracked code object, nested runs included; (0, 0) of another. */
PyObject *hook_stats(PyObject *code);

/* How many runs of tracked code this thread has begun. */
PyObject *hook_runs(void);

/* Drop all that is known about a code object: verdict, counts, that it is tracked. */
int hook_forget(PyObject *code);

/* Whether the evaluator is in the interpreter's chain: True or False. */
PyObject *hook_installed(void);

/* The address of the interpreter's present evaluator, an int. */
PyObject *hook_evaluator(void);

/* Leave all regions and restore the evaluator: in the child after a fork, and before the interpreter ends. */
int hook_close_all(void);

/* The current Context of the thread with this identifier (threading.get_ident), or None if there is no such thread or
 * it has none. The thread may go on to change it: copy it before use. */
PyObject *hook_thread_context(PyObject *identifier);

#ifdef __cplusplus
}
#endif

#endif /* IPY_DYNWRAP_FRAME_HOOK_H */
