# tutti_torch/_C, for the torch of the Python that builds; without torch the wheel has `tutti` alone.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import torch as t; print(t.__path__[0], t.__version__.split('+')[0], int(t._C._GLIBCXX_USE_CXX11_ABI), sep=';')"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
set(TUTTI_TORCH_VERSION "")
if(failed)
  message(STATUS "${Python_EXECUTABLE} has no torch: `import tutti` will work, torch.distributed on tutti will not")
else()
  list(GET torch_facts 0 torch_folder)
  list(GET torch_facts 1 TUTTI_TORCH_VERSION)
  list(GET torch_facts 2 torch_abi)
  message(STATUS "torch ${TUTTI_TORCH_VERSION} in ${torch_folder}")
endif()

# Loading a module that was built for another torch ends in an undefined symbol: the package looks first.
configure_file(built_for.py.in built_for.py @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/built_for.py DESTINATION tutti_torch)
if(failed)
  return()
endif()

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
# torch's own find_package(Torch) wants the CUDA toolkit where torch has CUDA, which nothing here needs.
add_library(torch_python INTERFACE)
target_include_directories(torch_python SYSTEM INTERFACE
  ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include)
target_compile_definitions(torch_python INTERFACE _GLIBCXX_USE_CXX11_ABI=${torch_abi} TORCH_EXTENSION_NAME=_C)
foreach(library c10 torch_cpu torch_python)
  target_link_libraries(torch_python INTERFACE ${torch_folder}/lib/lib${library}.so)
endforeach()

Python_add_library(_C MODULE WITH_SOABI
  src/backend.cpp src/blocking.cpp src/call.cpp src/collectives.cpp src/communicator.cpp src/device_call.cpp
  src/device_streams.cpp src/landing.cpp src/launch.cpp src/lists.cpp src/memory.cpp src/module.cpp
  src/monitored_barrier.cpp src/point_to_point.cpp src/sparse.cpp src/store.cpp src/types.cpp src/watcher.cpp src/work.cpp)
target_compile_features(_C PRIVATE cxx_std_20)
target_compile_options(_C PRIVATE -Wall -Wextra -Wno-missing-field-initializers)
target_link_libraries(_C PRIVATE torch_python tutti::tutti)
set_target_properties(_C PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN/../tutti:$ORIGIN/../torch/lib")
install(TARGETS _C LIBRARY DESTINATION tutti_torch)
