# tutti_layer(NAME SOURCES ... SET_UP_SOURCES ... DEPENDS ...): one folder of the library, as a static library
# tutti_NAME that the shared library and the tests link. What is in SET_UP_SOURCES runs while a communicator or a plan
# is made, not in calls, and is small rather than quick in releases, since its pages stay in every rank.
function(tutti_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;SET_UP_SOURCES;DEPENDS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES} ${arg_SET_UP_SOURCES})
  target_include_directories(tutti_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_${name} PUBLIC ${arg_DEPENDS})
  set_property(SOURCE ${arg_SET_UP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
endfunction()

# tutti_test(NAME SOURCES ... DEPENDS ... [LABELS ...] [TIMEOUT seconds]): one Catch2 executable and its CTest entry.
# LABELS default to "unit": runs in one process, needs nothing of the machine, and so runs under an emulator too, except
# for its cases with the tag [kernel]: those ask for what emulators keep from the kernel (MADV_DONTFORK, addresses given
# out again) or add to it (pages of their own). Hidden cases stay so. "unthreaded" says that ThreadSanitizer has nothing
# to find there. The target unit_tests builds what else there is.
add_custom_target(unit_tests)

# tutti_timeout(TEST seconds): ends what hangs, and not what is slow.
function(tutti_timeout test seconds)
  if(TUTTI_SANITIZE)
    math(EXPR seconds "3 * ${seconds}")
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

function(tutti_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} tutti_catch)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set(cases)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    set(cases ~[kernel]~[.])
  endif()
  add_test(NAME ${name} COMMAND test_${name} ${cases})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
  tutti_timeout(${name} ${arg_TIMEOUT})
  if(NOT unthreaded IN_LIST arg_LABELS)
    add_dependencies(unit_tests test_${name})
  endif()
endfunction()

# tutti_fuzzer(NAME SOURCES ... DEPENDS ... [CORPUS folder]): one LLVMFuzzerTestOneInput. With TUTTI_FUZZ it fuzzes for
# TUTTI_FUZZ_SECONDS, starting from the corpus. Otherwise any compiler builds it, and it replays the corpus and changed
# copies of it, so that a fuzz target never rots and a finding once added to the corpus stays fixed.
add_custom_target(fuzzers)
function(tutti_fuzzer name)
  cmake_parse_arguments(arg "" "CORPUS" "SOURCES;DEPENDS" ${ARGN})
  add_executable(fuzz_${name} ${arg_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${arg_DEPENDS})
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_dependencies(fuzzers fuzz_${name})
  if(arg_CORPUS)
    cmake_path(ABSOLUTE_PATH arg_CORPUS BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  if(TUTTI_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # libFuzzer writes what it learns into its first folder: that one is ours, the corpus is only read.
    set(learned ${CMAKE_CURRENT_BINARY_DIR}/corpus_${name})
    file(MAKE_DIRECTORY ${learned})
    add_test(NAME fuzz_${name} COMMAND fuzz_${name}
      -max_total_time=${TUTTI_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048 ${learned} ${arg_CORPUS})
    math(EXPR timeout "${TUTTI_FUZZ_SECONDS} + 120")
    set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cpp)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${arg_CORPUS})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS "unit;unthreaded")
    tutti_timeout(fuzz_${name} 120)
  endif()
endfunction()
