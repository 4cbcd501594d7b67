// Python's view of the C code: conversion only, no logic. The contract of each function is in the headers,
// the types are in ipy_dynwrap/_native.pyi.
#include <pybind11/pybind11.h>

#include "facts.h"
#include "frame_hook.h"
#include "places.h"

namespace py = pybind11;

namespace {

// A new reference from C, or the exception that C has set.
py::object
result(PyObject *object)
{
    if (object == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(object);
}

void
check(int status)
{
    if (status < 0) {
        throw py::error_already_set();
    }
}

#ifndef PYBIND11_HAS_SUBINTERPRETER_SUPPORT
// What a subinterpreter gets instead of the module: this pybind11 cannot be loaded there (it waits for a GIL that it
// already holds), and there is nothing to call but the reason why.
PyObject *
refuse_reason(PyObject *, PyObject *)
{
    return PyUnicode_FromString(hook_unavailable());
}

PyObject *
refuse_enter(PyObject *, PyObject *, PyObject *)
{
    return hook_enter(Py_None, Py_None, Py_None, Py_None);
}

PyMethodDef refuse_methods[] = {
    {"unavailable_reason", refuse_reason, METH_NOARGS, nullptr},
    {"enter", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(refuse_enter)), METH_VARARGS | METH_KEYWORDS,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot refuse_slots[] = {{0, nullptr}};

PyModuleDef refuse_module = {PyModuleDef_HEAD_INIT, "_native", nullptr, 0,      refuse_methods,
                             refuse_slots,          nullptr,   nullptr, nullptr};
#define MAIN_NAME _native_of_main
#else
#define MAIN_NAME _native
#endif

} // namespace

// Subinterpreters and free-threaded builds may load the module, and without a GIL: nothing in it works there, and
// unavailable_reason() says why.
PYBIND11_MODULE(MAIN_NAME, m, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil())
{
    check(hook_init());

    m.attr("PASS") = static_cast<int>(HOOK_PASS);
    m.attr("ROUTE") = static_cast<int>(HOOK_ROUTE);
    m.attr("ROUTE_CARRIER") = static_cast<int>(HOOK_ROUTE_CARRIER);
    m.attr("BARRIER") = static_cast<int>(HOOK_BARRIER);
    m.attr("DECLINE") = result(hook_decline());
    m.attr("DECLINE_ALL") = result(hook_decline_all());
    m.attr("Region") = result(hook_region_type());

    m.def("unavailable_reason", [] { return hook_unavailable(); });
    m.def(
        "enter",
        [](const py::object &decide, const py::object &route, const py::object &carrier, const py::object &policy) {
            return result(hook_enter(decide.ptr(), route.ptr(), carrier.ptr(), policy.ptr()));
        },
        py::arg("decide"), py::arg("route"), py::arg("carrier"), py::arg("policy"));
    m.def("leave", [](const py::object &region) { check(hook_leave(region.ptr())); }, py::arg("region"));
    m.def(
        "route_inner",
        [](const py::object &route, const py::object &code, const py::object &barriers) {
            check(hook_route_inner(route.ptr(), code.ptr(), barriers.ptr()));
        },
        py::arg("route"), py::arg("code"), py::arg("barriers"));
    m.def(
        "watch",
        [](const py::object &callable, const py::tuple &args, const py::object &kwargs) {
            return result(hook_watch(callable.ptr(), args.ptr(), kwargs.ptr()));
        },
        py::arg("callable"), py::arg("args"), py::arg("kwargs") = py::none());
    m.def("track", [](const py::object &code) { check(hook_track(code.ptr())); }, py::arg("code"));
    m.def("stats", [](const py::object &code) { return result(hook_stats(code.ptr())); }, py::arg("code"));
    m.def("runs", [] { return result(hook_runs()); });
    m.def("forget", [](const py::object &code) { check(hook_forget(code.ptr())); }, py::arg("code"));
    m.def("installed", [] { return result(hook_installed()); });
    m.def("evaluator", [] { return result(hook_evaluator()); });
    m.def("after_fork", [] { check(hook_close_all()); });
    m.def(
        "thread_context", [](const py::object &identifier) { return result(hook_thread_context(identifier.ptr())); },
        py::arg("thread_id"));

    m.def(
        "versions", [](const py::object &references) { return result(facts_versions(references.ptr())); },
        py::arg("references"));
    m.def(
        "parts", [](const py::object &references) { return result(facts_parts(references.ptr())); },
        py::arg("references"));
    m.def(
        "same_parts",
        [](const py::object &references, const py::object &parts) {
            return result(facts_same_parts(references.ptr(), parts.ptr()));
        },
        py::arg("references"), py::arg("parts"));

    m.def(
        "move",
        [](const py::object &code, const py::object &like) { return result(places_move(code.ptr(), like.ptr())); },
        py::arg("code"), py::arg("like"));

    py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") = m.attr("after_fork"));
    py::module_::import("atexit").attr("register")(m.attr("after_fork"));
}

#ifndef PYBIND11_HAS_SUBINTERPRETER_SUPPORT
extern "C" PYBIND11_EXPORT PyObject *
PyInit__native()
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        return PyModuleDef_Init(&refuse_module);
    }
    return PyInit__native_of_main();
}
#endif
