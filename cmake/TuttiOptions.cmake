# How everything is compiled.
include(GNUInstallDirs)

option(TUTTI_WERROR "Treat warnings as errors" OFF)
option(TUTTI_FUZZ "Build the fuzz targets with libFuzzer (needs clang)" OFF)
set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")
set(TUTTI_FUZZ_SECONDS 20 CACHE STRING "How long each fuzz target runs in CTest")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Small calls go through many small functions: a tenth of their instructions is what calling those costs.
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT DEFINED CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT CMAKE_INTERPROCEDURAL_OPTIMIZATION LANGUAGES C CXX)
endif()

include(TuttiCompilerCache)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON) # statement expressions in TUTTI_TRY
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Programs find libtutti.so beside themselves, wherever the installed tree is moved to.
file(RELATIVE_PATH library_from_programs
  ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${library_from_programs}")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${TUTTI_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>) # notes on how older GCCs passed vectors
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on std::string (GCC bug 105651).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    add_link_options(-Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()
if(TUTTI_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "TUTTI_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++, or use the preset fuzz.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # False alarms where sanitizers keep GCC from seeing through std::optional.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(TUTTI_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
