#include "facts.h"

#include <stdint.h>

#include "compat.h"

enum { PARTS = 3 };

static int
check_references(PyObject *references)
{
    if (!PyTuple_Check(references)) {
        PyErr_Format(PyExc_TypeError, "a tuple of weak references is needed, not %.200s", Py_TYPE(references)->tp_name);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(references); i++) {
        if (!PyWeakref_Check(PyTuple_GET_ITEM(references, i))) {
            PyErr_SetString(PyExc_TypeError, "a tuple of weak references is needed");
            return -1;
        }
    }
    return 0;
}

PyObject *
facts_versions(PyObject *references)
{
    PyObject *versions = NULL; /* owned */
    PyObject *class = NULL;    /* owned */
    uint32_t *tags = NULL;     /* within versions */

    if (check_references(references) < 0) {
        return NULL;
    }
    versions = PyBytes_FromStringAndSize(NULL, PyTuple_GET_SIZE(references) * (Py_ssize_t)sizeof(uint32_t));
    if (versions == NULL) {
        return NULL;
    }
    tags = (uint32_t *)(void *)PyBytes_AS_STRING(versions);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(references); i++) {
        class = weakref_get(PyTuple_GET_ITEM(references, i));
        tags[i] = class != NULL && PyType_Check(class) ? type_version((PyTypeObject *)class) : 0;
        Py_XDECREF(class);
    }
    return versions;
}

/* Borrowed from the function; None where there is nothing. */
static void
function_parts(PyObject *function, PyObject *parts[PARTS])
{
    for (int i = 0; i < PARTS; i++) {
        parts[i] = Py_None;
    }
    if (function != NULL && PyFunction_Check(function)) {
        PyObject *found[PARTS] = {PyFunction_GET_CODE(function), PyFunction_GET_DEFAULTS(function),
                                  PyFunction_GET_KW_DEFAULTS(function)};
        for (int i = 0; i < PARTS; i++) {
            if (found[i] != NULL) {
                parts[i] = found[i];
            }
        }
    }
}

PyObject *
facts_parts(PyObject *references)
{
    /* owned */
    PyObject *result = NULL, *function = NULL;
    PyObject *parts[PARTS]; /* borrowed */

    if (check_references(references) < 0) {
        return NULL;
    }
    result = PyTuple_New(PyTuple_GET_SIZE(references) * PARTS);
    if (result == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(references); i++) {
        function = weakref_get(PyTuple_GET_ITEM(references, i));
        function_parts(function, parts);
        for (int j = 0; j < PARTS; j++) {
            PyTuple_SET_ITEM(result, i * PARTS + j, Py_NewRef(parts[j]));
        }
        Py_XDECREF(function);
    }
    return result;
}

PyObject *
facts_same_parts(PyObject *references, PyObject *known)
{
    PyObject *function = NULL; /* owned */
    PyObject *parts[PARTS];    /* borrowed */
    int same = 1;

    if (check_references(references) < 0) {
        return NULL;
    }
    if (!PyTuple_Check(known) || PyTuple_GET_SIZE(known) != PyTuple_GET_SIZE(references) * PARTS) {
        PyErr_SetString(PyExc_TypeError, "parts has to be what facts_parts returned for these references");
        return NULL;
    }
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(references); i++) {
        function = weakref_get(PyTuple_GET_ITEM(references, i));
        function_parts(function, parts);
        for (int j = 0; j < PARTS; j++) {
            same = same && parts[j] == PyTuple_GET_ITEM(known, i * PARTS + j);
        }
        Py_XDECREF(function);
    }
    return PyBool_FromLong(same);
}
