# tutti_layer(NAME SOURCES ... DEPENDS ...): one folder of the library, as a static library tutti_NAME that the shared
# library and the tests link.
function(tutti_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES})
  target_include_directories(tutti_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_${name} PUBLIC ${arg_DEPENDS})
endfunction()

# tutti_test(NAME SOURCES ... DEPENDS ... [LABELS ...]): one Catch2 executable and its CTest entry.
function(tutti_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} Catch2::Catch2WithMain)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND test_${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
