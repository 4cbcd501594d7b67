#include "frame_hook.h"

#include <time.h>

#include "compat.h"

#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define LIKELY(x) (x)
#endif

/* How deep in lists, tuples and dicts a carrier is looked for, and at how many objects of one call. A batch of tensors
 * is found at once; a list of a million numbers costs no more than this. */
enum { CARRIER_DEPTH = 3, CARRIER_ITEMS = 256 };

/* Stand in for policy numbers, which are 0 or more. They differ, so that what is never known never matches. */
enum { NO_COMMON_POLICY = -1, NEVER = -2 };

/* What calls of a code object are inside of a routed call. */
enum inner_kind { INNER_PASS = 0, INNER_ROUTE, INNER_BARRIER };

/* What a code object's extra slot holds; freed by CPython with the code object. */
typedef struct {
    long long passes; /* the policy under which there is nothing at all to do for this code, or NEVER */
    long long policy; /* the policy that gave the verdict, or NEVER */
    enum hook_verdict verdict;
    enum inner_kind inner;
    bool tracked;
    unsigned long long runs;
    unsigned long long nanoseconds;
} code_slot;

typedef struct region_object {
    PyObject_HEAD bool open;
    uint64_t thread; /* PyThreadState_GetID: unlike an address or an identifier, not used again */
    long long policy;
    PyObject *decide, *route, *carrier;  /* owned; NULL once left */
    PyObject *token;                     /* owned, or NULL: undoes the context variable */
    struct region_object *outer;         /* owned, or NULL: the open region inside which this one was entered */
    struct region_object *before, *next; /* the list of open regions; borrowed, a region unlinks itself */
} region_object;

static struct {
    PyInterpreterState *interpreter; /* NULL until hook_init was successful */
    Py_ssize_t slot_index;
    PyObject *variable; /* owned: the ContextVar that names the region */
    PyTypeObject *region_type;
    PyObject *decline, *decline_all;
    PyObject *inner;                                     /* owned, or NULL: routes calls inside of routed calls */
    PyObject *probe_function, *probe_code, *probe_spare; /* owned: see probe() */

    compat_evaluator under; /* what ours chains to */
    bool placed;            /* ours was put in place, and not taken away by us */
    Py_ssize_t users;       /* open regions and running watches */
    unsigned generation;    /* of `users`; hook_close_all begins a new one */
    region_object *regions;
    long long policy; /* the one policy of all open regions, or NO_COMMON_POLICY */
    uint64_t thread;  /* the one thread of all open regions, or 0 */
} hook;

static _Thread_local struct {
    bool muted;            /* no region routes: Python decides, a routed call or a barrier runs, or a watch */
    bool inside;           /* a routed call or a watch runs, and no barrier in it: hook.inner is asked */
    bool probed;           /* the evaluator has seen the probe */
    compat_frame *in_hand; /* the frame that was last given to an evaluator other than CPython's */
    unsigned long long runs;
} local;

static bool
available(void)
{
    return hook.interpreter != NULL && hook.interpreter == PyInterpreterState_Get();
}

/* ---- The slot of a code object ---- */

static code_slot *
slot_of(PyCodeObject *code)
{
    return code_extra_get(code, hook.slot_index);
}

/* Borrowed from the code object; NULL with an exception set on failure. */
static code_slot *
slot_make(PyCodeObject *code)
{
    code_slot *slot = slot_of(code);

    if (slot != NULL) {
        return slot;
    }
    slot = PyMem_Calloc(1, sizeof(code_slot));
    if (slot == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    slot->passes = NEVER;
    slot->policy = NEVER;
    if (code_extra_set(code, hook.slot_index, slot) < 0) {
        PyMem_Free(slot);
        return NULL;
    }
    return slot;
}

/* ---- The chain of evaluators ---- */

static PyObject *evaluate(PyThreadState *tstate, compat_frame *frame, int throwflag);

/* Who puts itself above ours although ours already chains to it closes a circle: ours, it, ours, it. The second time
 * that one frame comes by, CPython's own evaluator takes it. */
static PyObject *
chain_to_other(PyThreadState *tstate, compat_frame *frame, int throwflag)
{
    compat_frame *outer = local.in_hand;
    PyObject *result = NULL;

    if (outer == frame) {
        return evaluator_default(tstate, frame, throwflag);
    }
    local.in_hand = frame;
    result = hook.under(tstate, frame, throwflag);
    local.in_hand = outer;
    return result;
}

/* Run a frame as if the hook were not there. */
static inline PyObject *
chain(PyThreadState *tstate, compat_frame *frame, int throwflag)
{
    if (LIKELY(evaluator_is_default(hook.under))) {
        return evaluator_default(tstate, frame, throwflag);
    }
    return chain_to_other(tstate, frame, throwflag);
}

/* Run a frame and route nothing of what it calls. */
static PyObject *
chain_muted(PyThreadState *tstate, compat_frame *frame)
{
    bool muted = local.muted, inside = local.inside;
    PyObject *result = NULL;

    local.muted = true;
    local.inside = false;
    result = chain(tstate, frame, 0);
    local.muted = muted;
    local.inside = inside;
    return result;
}

/* Whether the evaluator is beneath somebody else's: 1 or 0, or -1 with an exception set.
 * Nobody can be asked what he chains to, so a generator that does nothing is resumed and looked out for. It is resumed
 * with an exception because evaluators let that pass (Dynamo compiles no frame with a throwflag). */
static int
probe(void)
{
    /* owned */
    PyObject *generator = hook.probe_spare; /* taken: another thread may probe meanwhile */
    PyObject *yielded = NULL;
    int found = -1;

    hook.probe_spare = NULL;
    if (generator == NULL) {
        generator = PyObject_CallNoArgs(hook.probe_function);
        if (generator == NULL) {
            goto done;
        }
        yielded = PyIter_Next(generator);
        if (yielded == NULL) {
            goto done;
        }
        Py_CLEAR(yielded);
    }
    local.probed = false;
    yielded = PyObject_CallMethod(generator, "throw", "O", PyExc_RuntimeError);
    if (yielded == NULL) {
        goto done;
    }
    found = local.probed;
    if (hook.probe_spare == NULL) {
        hook.probe_spare = generator;
        generator = NULL;
    }

done:
    Py_XDECREF(yielded);
    Py_XDECREF(generator);
    return found;
}

/* 1 or 0, or -1 with an exception set. */
static int
in_chain(void)
{
    compat_evaluator top = evaluator_get(hook.interpreter);

    if (top == evaluate) {
        return 1;
    }
    if (!hook.placed || evaluator_is_default(top)) {
        return 0;
    }
    return probe();
}

/* Be in the chain of evaluators for one more user. */
static int
acquire(void)
{
    int found = in_chain();

    if (found < 0) {
        return -1;
    }
    if (!found) {
        hook.under = evaluator_get(hook.interpreter);
        hook.placed = true;
        evaluator_set(hook.interpreter, evaluate);
    }
    hook.users++;
    return 0;
}

/* Take ours away if it is on top. Beneath somebody else's it stays as a mere pass-through: he chains to it, and would
 * put it back when he leaves. The first frame that it then sees on top takes it away. */
static void
retire(void)
{
    if (evaluator_get(hook.interpreter) == evaluate) {
        evaluator_set(hook.interpreter, hook.under);
        hook.placed = false;
    }
}

static void
release(void)
{
    hook.users--;
    if (hook.users == 0) {
        retire();
    }
}

/* ---- Regions ---- */

static void
regions_changed(void)
{
    region_object *first = hook.regions;

    hook.policy = first != NULL ? first->policy : NO_COMMON_POLICY;
    hook.thread = first != NULL ? first->thread : 0;
    for (region_object *region = first; region != NULL; region = region->next) {
        if (region->policy != first->policy) {
            hook.policy = NO_COMMON_POLICY;
        }
        if (region->thread != first->thread) {
            hook.thread = 0;
        }
    }
}

static void
region_open(region_object *region)
{
    region->open = true;
    region->next = hook.regions;
    if (region->next != NULL) {
        region->next->before = region;
    }
    hook.regions = region;
    regions_changed();
}

static void
region_close(region_object *region)
{
    if (!region->open) {
        return;
    }
    region->open = false;
    if (region->before != NULL) {
        region->before->next = region->next;
    } else {
        hook.regions = region->next;
    }
    if (region->next != NULL) {
        region->next->before = region->before;
    }
    region->before = region->next = NULL;
    regions_changed();
    release();
    /* Last, because what is freed here may run Python. Contexts that still name the region keep an empty shell. */
    Py_CLEAR(region->decide);
    Py_CLEAR(region->route);
    Py_CLEAR(region->carrier);
}

static int
region_traverse(region_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->decide);
    Py_VISIT(self->route);
    Py_VISIT(self->carrier);
    Py_VISIT(self->token);
    Py_VISIT(self->outer);
    return 0;
}

static int
region_clear(region_object *self)
{
    region_close(self);
    Py_CLEAR(self->decide);
    Py_CLEAR(self->route);
    Py_CLEAR(self->carrier);
    Py_CLEAR(self->token);
    Py_CLEAR(self->outer);
    return 0;
}

static void
region_dealloc(region_object *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    (void)region_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
region_get_open(region_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->open);
}

static PyGetSetDef region_getset[] = {
    {"open", (getter)region_get_open, NULL, "Whether the region is on.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot region_slots[] = {
    {Py_tp_doc, (void *)"A region of one thread and context, from enter() to leave()."},
    {Py_tp_traverse, (void *)region_traverse},
    {Py_tp_clear, (void *)region_clear},
    {Py_tp_dealloc, (void *)region_dealloc},
    {Py_tp_getset, region_getset},
    {0, NULL},
};

static PyType_Spec region_spec = {
    .name = "ipy_dynwrap._native.Region",
    .basicsize = sizeof(region_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = region_slots,
};

static bool
is_region(PyObject *object)
{
    return object != NULL && Py_TYPE(object) == hook.region_type;
}

/* The region that is on in this thread and context, a new reference, or NULL without an exception. The one that the
 * context names may have been left from elsewhere; then the one around it counts. */
static region_object *
region_here(uint64_t thread)
{
    PyObject *named = NULL; /* owned */
    region_object *region = NULL;

    if (PyContextVar_Get(hook.variable, NULL, &named) < 0) {
        PyErr_Clear();
        return NULL;
    }
    if (is_region(named)) {
        region = (region_object *)named;
        while (region != NULL && !(region->open && region->thread == thread)) {
            region = region->outer;
        }
    }
    Py_XINCREF(region);
    Py_XDECREF(named);
    return region;
}

/* ---- The evaluator ---- */

static PyObject *
count(PyThreadState *tstate, compat_frame *frame, code_slot *slot)
{
    /* owned: it keeps the slot, and from CPython 3.12 on the frame is gone before its time is written down */
    PyObject *code = Py_NewRef((PyObject *)frame_code(frame));
    PyObject *result = NULL;
    struct timespec begin, end;

    slot->runs++;
    local.runs++;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    result = chain(tstate, frame, 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    slot->nanoseconds +=
        (unsigned long long)((end.tv_sec - begin.tv_sec) * 1000000000LL + (end.tv_nsec - begin.tv_nsec));
    Py_DECREF(code);
    return result;
}

/* Whether `object` is a carrier or holds one. No Python code runs: neither __instancecheck__ nor __iter__ is asked. */
static bool
carries(PyObject *object, PyTypeObject *carrier, int depth, int *items)
{
    PyObject *value = NULL; /* borrowed */
    Py_ssize_t position = 0;

    if (object == NULL || --*items < 0) {
        return false;
    }
    if (PyObject_TypeCheck(object, carrier)) {
        return true;
    }
    if (depth == 0) {
        return false;
    }
    if (PyTuple_Check(object)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object) && *items > 0; i++) {
            if (carries(PyTuple_GET_ITEM(object, i), carrier, depth - 1, items)) {
                return true;
            }
        }
    } else if (PyList_Check(object)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object) && *items > 0; i++) {
            if (carries(PyList_GET_ITEM(object, i), carrier, depth - 1, items)) {
                return true;
            }
        }
    } else if (PyDict_Check(object)) {
        while (*items > 0 && PyDict_Next(object, &position, NULL, &value)) {
            if (carries(value, carrier, depth - 1, items)) {
                return true;
            }
        }
    }
    return false;
}

static bool
receives_carrier(compat_frame *frame, PyTypeObject *carrier)
{
    PyCodeObject *code = frame_code(frame); /* borrowed */
    Py_ssize_t named = code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t collected = ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
    int items = CARRIER_ITEMS;

    for (Py_ssize_t i = 0; i < named + collected; i++) {
        /* *args and **kwargs are arguments side by side, not one that holds others. */
        if (carries(frame_argument(frame, i), carrier, CARRIER_DEPTH + (i >= named), &items)) {
            return true;
        }
    }
    return false;
}

/* The arguments of a fresh frame as a call would have them: 0 and two new references, or -1 with an exception set.
 * The fast locals begin with the positional, then the keyword-only arguments, then *args, then **kwargs. */
static int
frame_call_arguments(compat_frame *frame, PyObject **args_out, PyObject **kwargs_out)
{
    /* borrowed */
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t positional = code->co_argcount;
    Py_ssize_t collected = positional + code->co_kwonlyargcount;
    PyObject *more = (code->co_flags & CO_VARARGS) != 0 ? frame_argument(frame, collected++) : NULL;
    PyObject *named = (code->co_flags & CO_VARKEYWORDS) != 0 ? frame_argument(frame, collected) : NULL;
    Py_ssize_t more_size = more != NULL ? PyTuple_GET_SIZE(more) : 0;
    /* owned */
    PyObject *args = PyTuple_New(positional + more_size);
    PyObject *kwargs = named != NULL ? PyDict_Copy(named) : PyDict_New();

    if (args == NULL || kwargs == NULL) {
        goto failed;
    }
    for (Py_ssize_t i = 0; i < positional; i++) {
        PyTuple_SET_ITEM(args, i, Py_XNewRef(frame_argument(frame, i)));
    }
    for (Py_ssize_t i = 0; i < more_size; i++) {
        PyTuple_SET_ITEM(args, positional + i, Py_NewRef(PyTuple_GET_ITEM(more, i)));
    }
    for (Py_ssize_t i = positional; i < positional + code->co_kwonlyargcount; i++) {
        if (PyDict_SetItem(kwargs, code_local_name(code, i), frame_argument(frame, i)) < 0) {
            goto failed;
        }
    }
    *args_out = args;
    *kwargs_out = kwargs;
    return 0;

failed:
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return -1;
}

/* Take the frame of route itself out of the traceback of what it raised: to the user, the call that he wrote raised. */
static void
drop_own_traceback(PyObject *callable)
{
    PyObject *function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable; /* borrowed */
    /* owned */
    PyObject *type = NULL, *value = NULL, *traceback = NULL, *rest = NULL;
    PyCodeObject *code = NULL;

    PyErr_Fetch(&type, &value, &traceback);
    if (traceback == NULL || !PyTraceBack_Check(traceback) || !PyFunction_Check(function)) {
        goto done;
    }
    code = PyFrame_GetCode(((PyTracebackObject *)traceback)->tb_frame);
    if ((PyObject *)code != PyFunction_GET_CODE(function)) {
        goto done;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    rest = Py_XNewRef((PyObject *)((PyTracebackObject *)traceback)->tb_next);
    if (PyException_SetTraceback(value, rest != NULL ? rest : Py_None) < 0) {
        PyErr_Clear();
        goto done;
    }
    Py_SETREF(traceback, rest);
    rest = NULL;

done:
    Py_XDECREF(rest);
    Py_XDECREF(code);
    PyErr_Restore(type, value, traceback);
}

/* Call `target`, a region's route or hook.inner, instead of running the frame. */
static PyObject *
route(PyThreadState *tstate, compat_frame *frame, PyObject *target)
{
    /* owned */
    PyObject *callable = Py_XNewRef(target);
    PyObject *function = NULL, *args = NULL, *kwargs = NULL, *result = NULL;
    bool muted = local.muted, inside = local.inside;
    bool decline = false, decline_all = false;

    if (callable == NULL) { /* decide left the region */
        return chain(tstate, frame, 0);
    }
    function = frame_function(frame);
    if (function == NULL || frame_call_arguments(frame, &args, &kwargs) < 0 ||
        Py_EnterRecursiveCall(" while routing a call")) {
        goto done;
    }
    local.muted = true;
    local.inside = true;
    result = PyObject_CallFunctionObjArgs(callable, function, args, kwargs, NULL);
    local.muted = muted;
    local.inside = inside;
    Py_LeaveRecursiveCall();
    if (result == NULL) {
        drop_own_traceback(callable);
    }
    decline = result == hook.decline;
    decline_all = result == hook.decline_all;

done:
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_DECREF(callable);
    if (decline || decline_all) {
        Py_DECREF(result);
        return decline ? chain(tstate, frame, 0) : chain_muted(tstate, frame);
    }
    frame_discard(tstate, frame);
    return result;
}

/* Ask the region's decide about a code object: a verdict, or -1 with an exception set. */
static int
ask(PyThreadState *tstate, compat_frame *frame, region_object *region)
{
    /* borrowed */
    PyCodeObject *code = frame_code(frame);
    code_slot *slot = NULL;
    /* owned */
    PyObject *decide = Py_XNewRef(region->decide);
    PyObject *function = NULL, *answer = NULL;
    bool muted = local.muted;
    long long policy = region->policy;
    long verdict = HOOK_PASS;

    if (decide == NULL) {
        return HOOK_PASS;
    }
    tracing_suspend(tstate); /* a debugger or a profiler is there for the user's frames */
    local.muted = true;      /* also while sys.unraisablehook runs */
    function = frame_function(frame);
    if (function != NULL) {
        answer = PyObject_CallFunctionObjArgs(decide, (PyObject *)code, function, NULL);
    }
    if (answer != NULL) {
        verdict = PyLong_AsLong(answer);
        if (!PyErr_Occurred() && (verdict < HOOK_PASS || verdict > HOOK_BARRIER)) {
            PyErr_Format(PyExc_ValueError, "decide returned %ld, which is no verdict", verdict);
        }
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            verdict = -1; /* an interrupt, or the end of the program: the user's, not ours to drop */
            goto done;
        }
        verdict = HOOK_PASS;
        if (PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
            PyErr_Clear(); /* says nothing about the code: asked again when there is room */
            goto done;
        }
        PyErr_WriteUnraisable((PyObject *)code);
    }
    slot = slot_make(code);
    if (slot == NULL) {
        PyErr_Clear(); /* no memory to remember it: asked again */
        goto done;
    }
    slot->policy = policy;
    slot->verdict = (enum hook_verdict)verdict;
    slot->passes = verdict == HOOK_PASS && !slot->tracked && slot->inner == INNER_PASS ? policy : NEVER;

done:
    local.muted = muted;
    tracing_resume(tstate);
    Py_XDECREF(answer);
    Py_XDECREF(function);
    Py_DECREF(decide);
    return (int)verdict;
}

/* Run or route a frame of a call in a region. */
static PyObject *
evaluate_in_region(PyThreadState *tstate, compat_frame *frame, code_slot *slot, region_object *region)
{
    int verdict = slot != NULL && slot->policy == region->policy ? (int)slot->verdict : ask(tstate, frame, region);

    if (verdict == HOOK_ROUTE_CARRIER) {
        verdict = region->carrier != NULL && receives_carrier(frame, (PyTypeObject *)region->carrier) ? HOOK_ROUTE
                                                                                                      : HOOK_PASS;
    }
    switch (verdict) {
    case HOOK_PASS:
        return chain(tstate, frame, 0);
    case HOOK_BARRIER:
        return chain_muted(tstate, frame);
    case HOOK_ROUTE:
        return route(tstate, frame, region->route);
    default:
        frame_discard(tstate, frame);
        return NULL;
    }
}

/* A frame whose slot does not say at once that there is nothing to do. */
static PyObject *
consider(PyThreadState *tstate, compat_frame *frame, int throwflag, code_slot *slot)
{
    region_object *region = NULL; /* owned */
    PyObject *result = NULL;
    uint64_t thread = 0;

    if (local.in_hand == frame) {
        return evaluator_default(tstate, frame, throwflag); /* see chain_to_other */
    }
    if (hook.users == 0) {
        retire();
    }
    if (throwflag) {
        if ((PyObject *)frame_code(frame) == hook.probe_code) {
            local.probed = true;
        }
        return chain(tstate, frame, throwflag);
    }
    if (slot != NULL && slot->tracked && frame_is_fresh_call(frame)) {
        return count(tstate, frame, slot);
    }
    if (local.inside && slot != NULL && slot->inner != INNER_PASS && frame_is_fresh_call(frame)) {
        return slot->inner == INNER_ROUTE ? route(tstate, frame, hook.inner) : chain_muted(tstate, frame);
    }
    if (hook.regions == NULL || local.muted) {
        return chain(tstate, frame, 0);
    }
    thread = PyThreadState_GetID(tstate);
    if ((hook.thread != 0 && hook.thread != thread) || !frame_is_fresh_call(frame)) {
        return chain(tstate, frame, 0);
    }
    region = region_here(thread);
    if (region == NULL) {
        return chain(tstate, frame, 0);
    }
    result = evaluate_in_region(tstate, frame, slot, region);
    Py_DECREF(region);
    return result;
}

static PyObject *
evaluate(PyThreadState *tstate, compat_frame *frame, int throwflag)
{
    code_slot *slot = slot_of(frame_code(frame));

    if (LIKELY(slot != NULL && slot->passes == hook.policy)) {
        return chain(tstate, frame, throwflag);
    }
    return consider(tstate, frame, throwflag, slot);
}

/* ---- The functions of the header ---- */

const char *
hook_unavailable(void)
{
    const char *reason = compat_unavailable();

    if (reason == NULL && !available()) {
        reason = "the frame hook works in the main interpreter only, and this is a subinterpreter";
    }
    return reason;
}

/* A new reference, or NULL with an exception set. */
static PyObject *
make_probe(void)
{
    const char *source = "def probe():\n"
                         "    while True:\n"
                         "        try:\n"
                         "            yield True\n"
                         "        except RuntimeError:\n"
                         "            pass\n";
    /* owned */
    PyObject *names = PyDict_New();
    PyObject *executed = NULL, *function = NULL;

    if (names == NULL || PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0) {
        goto done;
    }
    executed = PyRun_String(source, Py_file_input, names, names);
    if (executed != NULL) {
        function = Py_XNewRef(PyDict_GetItemString(names, "probe"));
    }

done:
    Py_XDECREF(executed);
    Py_XDECREF(names);
    return function;
}

int
hook_init(void)
{
    if (compat_unavailable() != NULL || PyInterpreterState_Get() != PyInterpreterState_Main() ||
        hook.interpreter != NULL) {
        return 0;
    }
    hook.policy = NO_COMMON_POLICY;
    hook.under = evaluator_get(PyInterpreterState_Get());
    hook.decline = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    hook.decline_all = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    hook.variable = PyContextVar_New("ipy_dynwrap.region", NULL);
    hook.region_type = (PyTypeObject *)PyType_FromSpec(&region_spec);
    hook.probe_function = make_probe();
    if (hook.decline == NULL || hook.decline_all == NULL || hook.variable == NULL || hook.region_type == NULL ||
        hook.probe_function == NULL) {
        goto failed;
    }
    hook.probe_code = Py_NewRef(PyFunction_GET_CODE(hook.probe_function));
    hook.slot_index = code_extra_request(PyMem_Free);
    if (hook.slot_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "CPython has no slot left for data of code objects");
        goto failed;
    }
    hook.interpreter = PyInterpreterState_Get();
    return 0;

failed:
    Py_CLEAR(hook.decline);
    Py_CLEAR(hook.decline_all);
    Py_CLEAR(hook.variable);
    Py_CLEAR(hook.region_type);
    Py_CLEAR(hook.probe_function);
    Py_CLEAR(hook.probe_code);
    return -1;
}

PyObject *
hook_decline(void)
{
    return Py_NewRef(available() ? hook.decline : Py_None);
}

PyObject *
hook_decline_all(void)
{
    return Py_NewRef(available() ? hook.decline_all : Py_None);
}

PyObject *
hook_region_type(void)
{
    return Py_NewRef(available() ? (PyObject *)hook.region_type : (PyObject *)&PyBaseObject_Type);
}

PyObject *
hook_enter(PyObject *decide, PyObject *route_callable, PyObject *carrier, PyObject *policy)
{
    const char *unavailable = hook_unavailable();
    long long number = -1;
    region_object *region = NULL; /* owned */

    if (unavailable != NULL) {
        PyErr_SetString(PyExc_RuntimeError, unavailable);
        return NULL;
    }
    if (!PyCallable_Check(decide) || !PyCallable_Check(route_callable)) {
        PyErr_SetString(PyExc_TypeError, "decide and route have to be callable");
        return NULL;
    }
    if (!PyType_Check(carrier)) {
        PyErr_SetString(PyExc_TypeError, "carrier has to be a type");
        return NULL;
    }
    number = PyLong_AsLongLong(policy);
    if (number < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "policy has to be 0 or more");
        }
        return NULL;
    }
    region = PyObject_GC_New(region_object, hook.region_type);
    if (region == NULL) {
        return NULL;
    }
    region->open = false;
    region->thread = PyThreadState_GetID(PyThreadState_Get());
    region->policy = number;
    region->decide = Py_NewRef(decide);
    region->route = Py_NewRef(route_callable);
    region->carrier = Py_NewRef(carrier);
    region->token = NULL;
    region->outer = region_here(region->thread);
    region->before = region->next = NULL;
    PyObject_GC_Track(region);
    /* The context first: it is a region that is not open yet, and undone by being forgotten. */
    region->token = PyContextVar_Set(hook.variable, (PyObject *)region);
    if (region->token == NULL) {
        goto failed;
    }
    if (acquire() < 0) {
        goto failed;
    }
    region_open(region);
    return (PyObject *)region;

failed:
    Py_DECREF(region);
    return NULL;
}

/* Make the context name no region that is off. In another context than the one of enter there is nothing to undo, or a
 * copy of the name that the token does not fit. */
static int
context_tidy(void)
{
    PyObject *named = NULL; /* owned */
    PyObject *token = NULL; /* owned */
    int status = 0;

    while (status == 0) {
        if (PyContextVar_Get(hook.variable, NULL, &named) < 0) {
            return -1;
        }
        if (!is_region(named) || ((region_object *)named)->open) {
            Py_XDECREF(named);
            return 0;
        }
        token = ((region_object *)named)->token;
        ((region_object *)named)->token = NULL;
        if (token == NULL || PyContextVar_Reset(hook.variable, token) < 0) {
            PyErr_Clear();
            Py_XSETREF(token, PyContextVar_Set(hook.variable, Py_None));
            status = token == NULL ? -1 : 0;
        }
        Py_CLEAR(token);
        Py_CLEAR(named);
    }
    return status;
}

int
hook_leave(PyObject *region)
{
    if (!available() || !is_region(region)) {
        PyErr_SetString(PyExc_TypeError, "leave takes what enter returned");
        return -1;
    }
    region_close((region_object *)region);
    if (context_tidy() < 0) {
        return -1;
    }
    Py_CLEAR(((region_object *)region)->token); /* it holds the context */
    return 0;
}

PyObject *
hook_watch(PyObject *callable, PyObject *args, PyObject *kwargs)
{
    PyObject *result = NULL;
    bool muted = local.muted, inside = local.inside;
    unsigned generation = hook.generation;

    if (kwargs == Py_None) {
        kwargs = NULL;
    }
    if (!available()) {
        return PyObject_Call(callable, args, kwargs);
    }
    if (acquire() < 0) {
        return NULL;
    }
    local.muted = true;
    local.inside = true;
    result = PyObject_Call(callable, args, kwargs);
    local.muted = muted;
    local.inside = inside;
    if (generation == hook.generation) {
        release();
    }
    return result;
}

static int
mark_inner(PyObject *code, enum inner_kind kind)
{
    code_slot *slot = NULL;

    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "a code object is needed, not %.200s", Py_TYPE(code)->tp_name);
        return -1;
    }
    slot = slot_make((PyCodeObject *)code);
    if (slot == NULL) {
        return -1;
    }
    slot->inner = kind;
    slot->passes = NEVER;
    return 0;
}

int
hook_route_inner(PyObject *callable, PyObject *code, PyObject *barriers)
{
    PyObject *iterator = NULL, *barrier = NULL; /* owned */
    int status = 0;

    if (!available()) {
        return 0;
    }
    if (!PyCallable_Check(callable)) {
        PyErr_SetString(PyExc_TypeError, "the route has to be callable");
        return -1;
    }
    iterator = PyObject_GetIter(barriers);
    if (iterator == NULL) {
        return -1;
    }
    while (status == 0 && (barrier = PyIter_Next(iterator)) != NULL) {
        status = mark_inner(barrier, INNER_BARRIER);
        Py_DECREF(barrier);
    }
    Py_DECREF(iterator);
    if (status < 0 || PyErr_Occurred()) {
        return -1;
    }
    Py_XSETREF(hook.inner, Py_NewRef(callable));
    return mark_inner(code, INNER_ROUTE);
}

/* 1 and the slot (borrowed, NULL if there is none), 0 if the hook is unavailable, -1 with an exception set. */
static int
known_slot(PyObject *code, code_slot **slot)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "a code object is needed, not %.200s", Py_TYPE(code)->tp_name);
        return -1;
    }
    if (!available()) {
        return 0;
    }
    *slot = slot_of((PyCodeObject *)code);
    return 1;
}

int
hook_track(PyObject *code)
{
    code_slot *slot = NULL;
    int known = known_slot(code, &slot);

    if (known <= 0) {
        return known;
    }
    slot = slot_make((PyCodeObject *)code);
    if (slot == NULL) {
        return -1;
    }
    slot->tracked = true;
    slot->passes = NEVER;
    return 0;
}

PyObject *
hook_stats(PyObject *code)
{
    code_slot *slot = NULL;

    if (known_slot(code, &slot) < 0) {
        return NULL;
    }
    return Py_BuildValue("KK", slot != NULL ? slot->runs : 0ULL, slot != NULL ? slot->nanoseconds : 0ULL);
}

PyObject *
hook_runs(void)
{
    return PyLong_FromUnsignedLongLong(local.runs);
}

int
hook_forget(PyObject *code)
{
    code_slot *slot = NULL;

    if (known_slot(code, &slot) < 0) {
        return -1;
    }
    if (slot != NULL) {
        /* Kept, as a run of this code may be in progress; CPython frees it with the code object. */
        *slot = (code_slot){.passes = NEVER, .policy = NEVER, .inner = slot->inner};
    }
    return 0;
}

PyObject *
hook_installed(void)
{
    int found = available() ? in_chain() : 0;

    return found < 0 ? NULL : PyBool_FromLong(found);
}

PyObject *
hook_evaluator(void)
{
    /* By way of an integer, as ISO C knows no conversion of a function's address to an object's. */
    return PyLong_FromUnsignedLongLong((uintptr_t)evaluator_get(PyInterpreterState_Get()));
}

int
hook_close_all(void)
{
    region_object *region = NULL; /* owned */

    if (!available()) {
        return 0;
    }
    while (hook.regions != NULL) {
        region = hook.regions;
        Py_INCREF(region);
        region_close(region);
        Py_DECREF(region);
    }
    hook.generation++; /* a watch that is running has nothing to release */
    hook.users = 0;
    local.muted = false;
    local.inside = false;
    local.in_hand = NULL;
    retire();
    return context_tidy();
}

PyObject *
hook_thread_context(PyObject *identifier)
{
    unsigned long wanted = PyLong_AsUnsignedLong(identifier);
    PyThreadState *tstate = NULL; /* borrowed: threads end only while they hold the GIL */

    if (PyErr_Occurred()) {
        return NULL;
    }
    if (available()) {
        tstate = PyInterpreterState_ThreadHead(hook.interpreter);
    }
    while (tstate != NULL && tstate->thread_id != wanted) {
        tstate = PyThreadState_Next(tstate);
    }
    return Py_NewRef(tstate != NULL && tstate->context != NULL ? tstate->context : Py_None);
}
