/* Facts about classes and functions that torch's guards do not look at, compared in a few nanoseconds each.
 *
 * Unless said otherwise: arguments are borrowed; a returned object is a new reference, or NULL with an exception set.
 */
#ifndef IPY_DYNWRAP_FACTS_H
#define IPY_DYNWRAP_FACTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version tags of classes, as bytes: they change when an attribute of the class or of a base of it is set.
 *   references: a tuple of weak references to classes
 * A class that is gone, or that has no valid tag, counts as 0: compare, and look closer at what is not equal or 0. */
PyObject *facts_versions(PyObject *references);

/* What can be replaced in functions without replacing them: a tuple of (code, defaults, keyword-only defaults) side by
 * side, None for what is not there or gone.
 *   references: a tuple of weak references to functions */
PyObject *facts_parts(PyObject *references);

/* Whether the parts are the very objects that facts_parts found before: True or False. */
PyObject *facts_same_parts(PyObject *references, PyObject *parts);

#ifdef __cplusplus
}
#endif

#endif /* IPY_DYNWRAP_FACTS_H */
