/* Every difference between CPython versions that the frame hook meets, each as a named inline function with its cause.
 *
 * No other file names a version. A new version is a new branch in the sections below; a CPython without one (and a
 * free-threaded build) gets the stubs at the end: the module builds and imports, and compat_unavailable() says why the
 * hook cannot be switched on.
 *
 * What the hook needs of a version:
 *   compat_unavailable        why the hook cannot work in this build, or NULL
 *   evaluator_get/_set        PEP 523's evaluator of the interpreter
 *   evaluator_default         CPython's own
 *   frame_code, _function, _is_fresh_call, _argument, _discard
 *   code_local_name, code_extra_request, code_extra_get, code_extra_set
 *   tracing_suspend, tracing_resume
 *   code_length, code_forget_lines
 */
#ifndef IPY_DYNWRAP_COMPAT_H
#define IPY_DYNWRAP_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(Py_GIL_DISABLED) || PY_VERSION_HEX < 0x030A0000 || PY_VERSION_HEX >= 0x030E0000
#define COMPAT_KNOWN 0
#else
#define COMPAT_KNOWN 1
#endif

#if COMPAT_KNOWN && PY_VERSION_HEX >= 0x030B0000
/* The layout of a frame is internal from 3.11 on: https://docs.python.org/3.11/whatsnew/3.11.html#frame-api */
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#if PY_VERSION_HEX >= 0x030B0000
typedef struct _PyInterpreterFrame compat_frame;
#else
#include <frameobject.h>
typedef PyFrameObject compat_frame;
#endif

typedef PyObject *(*compat_evaluator)(PyThreadState *, compat_frame *, int);

/* 0 for a class whose attributes have changed since the last look-up in it. CPython 3.12 keeps no flag beside the tag
 * (https://github.com/python/cpython/pull/101826), and before 3.11 the tag of a changed class keeps its value. */
static inline uint32_t
type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) {
        return 0;
    }
#endif
    return type->tp_version_tag;
}

/* A new reference, or NULL without an exception if the object is gone. PyWeakref_GetObject is deprecated from 3.13 on,
 * and what replaces it is not there before (https://docs.python.org/3/c-api/weakref.html). */
static inline PyObject *
weakref_get(PyObject *reference)
{
    PyObject *object = NULL;

#if PY_VERSION_HEX >= 0x030D0000
    if (PyWeakref_GetRef(reference, &object) < 0) {
        PyErr_Clear();
    }
#else
    object = PyWeakref_GetObject(reference); /* borrowed */
    if (object == Py_None) {
        return NULL;
    }
    Py_XINCREF(object);
#endif
    return object;
}

#if COMPAT_KNOWN

/* The length of the instructions, in bytes. */
static inline Py_ssize_t
code_length(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030B0000
    return _PyCode_NBYTES(code);
#else
    return PyBytes_GET_SIZE(code->co_code);
#endif
}

/* Drops what CPython has worked out from the line table of a code object; false, and nothing is done, if it cannot be.
 * 3.11 keeps an array of lines once the code was traced, and makes it anew when it is gone. From 3.12 on, monitoring
 * writes line numbers into data of its own, and keeps them: https://peps.python.org/pep-0669/ */
static inline bool
code_forget_lines(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return code->_co_monitoring == NULL;
#elif PY_VERSION_HEX >= 0x030B0000
    if (code->_co_linearray != NULL) {
        PyMem_Free(code->_co_linearray);
        code->_co_linearray = NULL;
    }
    return true;
#else
    (void)code;
    return true;
#endif
}

static inline const char *
compat_unavailable(void)
{
    return NULL;
}

static inline compat_evaluator
evaluator_get(PyInterpreterState *interpreter)
{
    return _PyInterpreterState_GetEvalFrameFunc(interpreter);
}

static inline void
evaluator_set(PyInterpreterState *interpreter, compat_evaluator evaluator)
{
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluator);
}

static inline PyObject *
evaluator_default(PyThreadState *tstate, compat_frame *frame, int throwflag)
{
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

static inline bool
evaluator_is_default(compat_evaluator evaluator)
{
    return evaluator == _PyEval_EvalFrameDefault;
}

/* Borrowed. In 3.13 a frame has an "executable", which is a code object for every frame that an evaluator is given. */
static inline PyCodeObject *
frame_code(compat_frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* The function that was called, a new reference; NULL and an exception on failure.
 * A frame of 3.10 does not know its function: an equal one is made of what the frame holds. It has the code, globals
 * and cells of the real one; the defaults are not needed, as the frame's arguments are already complete. */
static inline PyObject *
frame_function(compat_frame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    return Py_NewRef(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030B0000
    return Py_NewRef((PyObject *)frame->f_func);
#else
    PyCodeObject *code = frame->f_code;
    Py_ssize_t free = PyTuple_GET_SIZE(code->co_freevars);
    PyObject **cells = frame->f_localsplus + code->co_nlocals + PyTuple_GET_SIZE(code->co_cellvars);
    /* owned */
    PyObject *function = PyFunction_New((PyObject *)code, frame->f_globals);
    PyObject *closure = NULL;

    if (function == NULL || free == 0) {
        return function;
    }
    closure = PyTuple_New(free);
    if (closure == NULL) {
        goto failed;
    }
    for (Py_ssize_t i = 0; i < free; i++) {
        PyTuple_SET_ITEM(closure, i, Py_NewRef(cells[i]));
    }
    if (PyFunction_SetClosure(function, closure) < 0) {
        goto failed;
    }
    Py_DECREF(closure);
    return function;

failed:
    Py_XDECREF(closure);
    Py_DECREF(function);
    return NULL;
#endif
}

/* True for the frame of a call of a function that has not run an instruction yet. What has local names of its own
 * mapping (a class body, a module, exec) is no call of a function. */
static inline bool
frame_is_fresh_call(compat_frame *frame)
{
    const int function_flags = CO_OPTIMIZED | CO_NEWLOCALS;
    const int resumable_flags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    PyCodeObject *code = frame_code(frame);

    if ((code->co_flags & function_flags) != function_flags || (code->co_flags & resumable_flags) != 0 ||
        frame->f_locals != NULL) {
        return false;
    }
#if PY_VERSION_HEX >= 0x030D0000
    /* 3.13 keeps the instruction to run next, earlier versions the one before it. */
    return frame->instr_ptr == _PyCode_CODE(code);
#elif PY_VERSION_HEX >= 0x030B0000
    return frame->prev_instr == _PyCode_CODE(code) - 1;
#else
    return frame->f_state == FRAME_CREATED;
#endif
}

/* The value of the argument in a fast local of a fresh call, borrowed.
 * 3.10 has moved arguments that inner functions use into their cells before the evaluator is called; later versions do
 * so by instructions of the code itself (MAKE_CELL). */
static inline PyObject *
frame_argument(compat_frame *frame, Py_ssize_t index)
{
#if PY_VERSION_HEX >= 0x030B0000
    return frame->localsplus[index];
#else
    PyCodeObject *code = frame->f_code;

    if (frame->f_localsplus[index] == NULL && code->co_cell2arg != NULL) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_cellvars); i++) {
            if (code->co_cell2arg[i] == index) {
                return PyCell_GET(frame->f_localsplus[code->co_nlocals + i]);
            }
        }
    }
    return frame->f_localsplus[index];
#endif
}

/* Give up a fresh frame that will not run. May be called with an exception set, and leaves it set.
 * Up to 3.11 the caller of the evaluator clears the frame. From 3.12 on the evaluator does, with functions that CPython
 * does not export: so its own evaluator is made to throw into the frame, which has no handler yet, and unwinds it. */
static inline void
frame_discard(PyThreadState *tstate, compat_frame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *raised = PyErr_GetRaisedException();
    PyErr_SetNone(PyExc_GeneratorExit);
    PyObject *nothing = _PyEval_EvalFrameDefault(tstate, frame, 1);
    Py_XDECREF(nothing);
    PyErr_SetRaisedException(raised);
#else
    (void)tstate;
    (void)frame;
#endif
}

/* The name of a fast local, borrowed. 3.11 joined locals, cells and free variables into one array, and their names. */
static inline PyObject *
code_local_name(PyCodeObject *code, Py_ssize_t index)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyTuple_GET_ITEM(code->co_localsplusnames, index);
#else
    return PyTuple_GET_ITEM(code->co_varnames, index);
#endif
}

/* 3.12 moved the functions of PEP 523's code extras to the unstable tier: https://peps.python.org/pep-0689/ */
static inline Py_ssize_t
code_extra_request(freefunc release)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Eval_RequestCodeExtraIndex(release);
#else
    return _PyEval_RequestCodeExtraIndex(release);
#endif
}

static inline int
code_extra_set(PyCodeObject *code, Py_ssize_t index, void *extra)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Code_SetExtra((PyObject *)code, index, extra);
#else
    return _PyCode_SetExtra((PyObject *)code, index, extra);
#endif
}

/* What code_extra_set kept, or NULL. CPython's function for this is the greater part of what a passing frame costs, so
 * the array is read in place. Its layout is private to Objects/codeobject.c, and has been this one since 3.6. */
static inline void *
code_extra_get(PyCodeObject *code, Py_ssize_t index)
{
    const struct {
        Py_ssize_t size;
        void *extras[1];
    } *array = code->co_extra;

    return array != NULL && index < array->size ? array->extras[index] : NULL;
}

/* Hide what runs between the two from the trace and profile functions of this thread. 3.11 has functions for this:
 * https://docs.python.org/3/c-api/init.html#c.PyThreadState_EnterTracing */
static inline void
tracing_suspend(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_EnterTracing(tstate);
#else
    tstate->tracing++;
    tstate->cframe->use_tracing = 0;
#endif
}

static inline void
tracing_resume(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_LeaveTracing(tstate);
#else
    tstate->tracing--;
    tstate->cframe->use_tracing = tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL ? 255 : 0;
#endif
}

#else /* COMPAT_KNOWN: stubs, never reached because hook_unavailable() is asked first */

#define COMPAT_TEXT(x) #x
#define COMPAT_NUMBER(x) COMPAT_TEXT(x)

static inline const char *
compat_unavailable(void)
{
#ifdef Py_GIL_DISABLED
    return "the frame hook needs the GIL, and this is a free-threaded build of CPython";
#else
    return "the frame hook knows CPython 3.10 to 3.13, and this is CPython " COMPAT_NUMBER(
        PY_MAJOR_VERSION) "." COMPAT_NUMBER(PY_MINOR_VERSION);
#endif
}

static inline compat_evaluator
evaluator_get(PyInterpreterState *interpreter)
{
    (void)interpreter;
    return NULL;
}

static inline void
evaluator_set(PyInterpreterState *interpreter, compat_evaluator evaluator)
{
    (void)interpreter;
    (void)evaluator;
}

static inline PyObject *
evaluator_default(PyThreadState *tstate, compat_frame *frame, int throwflag)
{
    (void)tstate;
    (void)frame;
    (void)throwflag;
    return NULL;
}

static inline bool
evaluator_is_default(compat_evaluator evaluator)
{
    return evaluator == NULL;
}

static inline PyCodeObject *
frame_code(compat_frame *frame)
{
    (void)frame;
    return NULL;
}

static inline PyObject *
frame_function(compat_frame *frame)
{
    (void)frame;
    return NULL;
}

static inline bool
frame_is_fresh_call(compat_frame *frame)
{
    (void)frame;
    return false;
}

static inline PyObject *
frame_argument(compat_frame *frame, Py_ssize_t index)
{
    (void)frame;
    (void)index;
    return NULL;
}

static inline void
frame_discard(PyThreadState *tstate, compat_frame *frame)
{
    (void)tstate;
    (void)frame;
}

static inline PyObject *
code_local_name(PyCodeObject *code, Py_ssize_t index)
{
    (void)code;
    (void)index;
    return NULL;
}

static inline Py_ssize_t
code_extra_request(freefunc release)
{
    (void)release;
    return -1;
}

static inline int
code_extra_set(PyCodeObject *code, Py_ssize_t index, void *extra)
{
    (void)code;
    (void)index;
    (void)extra;
    return -1;
}

static inline void *
code_extra_get(PyCodeObject *code, Py_ssize_t index)
{
    (void)code;
    (void)index;
    return NULL;
}

static inline void
tracing_suspend(PyThreadState *tstate)
{
    (void)tstate;
}

static inline void
tracing_resume(PyThreadState *tstate)
{
    (void)tstate;
}

static inline Py_ssize_t
code_length(PyCodeObject *code)
{
    (void)code;
    return 0;
}

static inline bool
code_forget_lines(PyCodeObject *code)
{
    (void)code;
    return false;
}

#endif /* COMPAT_KNOWN */

#endif /* IPY_DYNWRAP_COMPAT_H */
