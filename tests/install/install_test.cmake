# One step of the install tests; see CMakeLists.txt for the variables.
set(consumer ${CMAKE_CURRENT_LIST_DIR}/consumer)
set(ENV{TUTTI_CALIBRATION} off) # measures nothing and stores nothing

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REPLACE ";" " " command "${ARGN}")
  message("${command}\n${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "status ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Installs in one place and moves the tree to another: nothing in it may point to where it was, nor into the build.
function(step_tree)
  file(REMOVE_RECURSE ${SCRATCH}/first ${PREFIX})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first)
  file(RENAME ${SCRATCH}/first ${PREFIX})
  run(${PREFIX}/bin/tutti bench all_reduce --ranks 2 -b 1K -e 64K)
endfunction()

function(step_find_package)
  set(build ${SCRATCH}/consumer)
  file(REMOVE_RECURSE ${build})
  run(${CMAKE_COMMAND} -S ${consumer} -B ${build} -D CMAKE_C_COMPILER=${CC} -D CMAKE_PREFIX_PATH=${PREFIX})
  run(${CMAKE_COMMAND} --build ${build})
  run(${build}/consumer)
  run(${PREFIX}/bin/tutti run -n 2 -- ${build}/consumer)
  if(NOT output MATCHES "rank 1 of 2: 2")
    message(FATAL_ERROR "the two ranks did not sum to 2")
  endif()
endfunction()

function(step_pkg_config)
  set(pkgconfig ${PREFIX}/${LIBDIR}/pkgconfig)
  run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pkgconfig} ${PKG_CONFIG} --cflags --libs tutti)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${CC} -std=c11 -Wall -Werror ${consumer}/consumer.c -o ${SCRATCH}/with_pkg_config ${flags})
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PREFIX}/${LIBDIR} ${SCRATCH}/with_pkg_config)
endfunction()

cmake_language(CALL step_${STEP})
