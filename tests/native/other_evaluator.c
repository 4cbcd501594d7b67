/* Another user of PEP 523, loaded with ctypes.PyDLL. It counts the frames that it sees and chains to the evaluator that
 * it found; like TorchDynamo's it puts back what it saved when it leaves, whoever is on top by then. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000
typedef struct _PyInterpreterFrame frame_type;
#else
#include <frameobject.h>
typedef PyFrameObject frame_type;
#endif

typedef PyObject *(*evaluator)(PyThreadState *, frame_type *, int);

extern PyObject *_PyEval_EvalFrameDefault(PyThreadState *, frame_type *, int);
extern void _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState *, evaluator);
extern evaluator _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState *);

static evaluator before;
static long seen;

static PyObject *
counting(PyThreadState *tstate, frame_type *frame, int throwflag)
{
    seen++;
    return (before != NULL ? before : _PyEval_EvalFrameDefault)(tstate, frame, throwflag);
}

void
switch_on(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();

    before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, counting);
}

void
switch_off(void)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), before != NULL ? before : _PyEval_EvalFrameDefault);
    before = NULL;
}

long
frames_seen(void)
{
    long frames = seen;

    seen = 0;
    return frames;
}

unsigned long long
address(void)
{
    return (unsigned long long)(size_t)counting;
}
