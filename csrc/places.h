/* Where a code object stands: its file, first line and line table.
 *
 * Unless said otherwise: arguments are borrowed; a returned object is a new reference, or NULL with an exception set.
 */
#ifndef IPY_DYNWRAP_PLACES_H
#define IPY_DYNWRAP_PLACES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a code object stand where another one with the same instructions does. That runs nothing of Python's.
 *   code     the one that is changed
 *   like     the other one; its length must be the same
 * Returns the former line table, which has to outlive the use of `code` by a tracer: CPython's own state of a thread
 * may point into it. None, and nothing is changed, where that cannot be done. */
PyObject *places_move(PyObject *code, PyObject *like);

#ifdef __cplusplus
}
#endif

#endif /* IPY_DYNWRAP_PLACES_H */
