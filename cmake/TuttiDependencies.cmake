# For wheels: nothing that a program or a system may have in another version is a library beside libtutti.so. What is
# inside of it nobody else sees, since it exports its own functions only: they are C, so no exception and no object of
# C++ passes between its C++ library and another. OpenSSL and hwloc stay the system's, which keeps them up to date,
# unless manylinux/toolchain.cmake says where their archives are.
option(TUTTI_EMBED_DEPENDENCIES "Compile fmt, spdlog, expat and the C++ library into libtutti.so" OFF)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL 3 REQUIRED)
if(TUTTI_EMBED_DEPENDENCIES)
  find_library(EXPAT_LIBRARY NAMES libexpat.a expat)
endif()
find_package(EXPAT REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
# Its headers alone: kernels/instruction_set.h says why.
pkg_check_modules(hwy REQUIRED libhwy)
add_library(tutti_highway INTERFACE)
target_include_directories(tutti_highway SYSTEM INTERFACE ${hwy_INCLUDE_DIRS})

set(tutti_fmt fmt::fmt)
set(tutti_spdlog spdlog::spdlog)
if(TUTTI_EMBED_DEPENDENCIES)
  set(tutti_fmt fmt::fmt-header-only)
  add_library(tutti_spdlog INTERFACE) # spdlog's own one of headers alone links the library of fmt
  target_include_directories(tutti_spdlog SYSTEM INTERFACE
    $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(tutti_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(tutti_spdlog INTERFACE ${tutti_fmt} Threads::Threads)
  set(tutti_spdlog tutti_spdlog)
  add_link_options(-static-libstdc++ LINKER:--gc-sections) # the latter: without what nobody calls
endif()
