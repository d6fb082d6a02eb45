// What Python sees.
#include <pybind11/chrono.h>

#include <torch/extension.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend.h"
#include "memory.h"
#include "watcher.h"

namespace py = pybind11;
using namespace tutti_torch;

namespace {

c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         std::chrono::milliseconds timeout, const Settings& settings) {
  return c10::make_intrusive<TuttiBackend>(store, rank, size, c10::make_intrusive<TuttiOptions>(timeout, settings));
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.attr("torch_version") = TORCH_VERSION;
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("settings"), py::call_guard<py::gil_scoped_release>(),
             "Joins a group of `size` ranks, which meet through `store`. Blocks until all have come.");
  module.def("stop_watchers", &Watcher::stop_all, py::call_guard<py::gil_scoped_release>(),
             "Ends the threads that finish calls. The package calls it when the program ends.");
  py::class_<Pool, std::shared_ptr<Pool>>(module, "Pool", "New tensors in memory that ranks of a host reach directly.")
      .def(py::init(&Pool::create))
      .def("empty", [](Pool& pool, const std::vector<int64_t>& sizes, at::ScalarType dtype) {
        return pool.empty(sizes, dtype);
      }, py::arg("sizes"), py::arg("dtype"));
  py::class_<Registrar, std::shared_ptr<Registrar>>(module, "Registrar")
      .def(py::init(&Registrar::create), py::call_guard<py::gil_scoped_release>());
  py::class_<Registration>(module, "Registration", "A tensor's memory, registered until this goes away.")
      .def(py::init<std::shared_ptr<Registrar>, at::Tensor>(), py::call_guard<py::gil_scoped_release>());
  module.def("version", &tutti_version, "The version of libtutti: major * 10000 + minor * 100 + patch.");
}
