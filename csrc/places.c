#include "places.h"

#include "compat.h"

PyObject *
places_move(PyObject *code, PyObject *like)
{
    PyCodeObject *moved = (PyCodeObject *)code;
    PyCodeObject *other = (PyCodeObject *)like;
    PyObject *filename = NULL; /* owned: what was there before */
    PyObject *table = NULL;    /* the same; returned */

    if (!PyCode_Check(code) || !PyCode_Check(like)) {
        PyErr_SetString(PyExc_TypeError, "two code objects are needed");
        return NULL;
    }
    if (code_length(moved) != code_length(other)) {
        PyErr_SetString(PyExc_ValueError, "the code objects differ in length");
        return NULL;
    }
    if (!code_forget_lines(moved)) {
        Py_RETURN_NONE;
    }
    filename = moved->co_filename;
    table = moved->co_linetable;
    Py_INCREF(other->co_filename);
    moved->co_filename = other->co_filename;
    Py_INCREF(other->co_linetable);
    moved->co_linetable = other->co_linetable;
    moved->co_firstlineno = other->co_firstlineno;
    Py_DECREF(filename);
    return table;
}
