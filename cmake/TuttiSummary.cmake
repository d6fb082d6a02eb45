# What the configure step decided, in a few lines.
function(tutti_summary label value)
  if(NOT value)
    set(value none)
  endif()
  message(STATUS "  ${label}: ${value}")
endfunction()

message(STATUS "tutti ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, "
  "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} for ${CMAKE_SYSTEM_PROCESSOR}")
tutti_summary("CUDA" "${TUTTI_CUDA_SUMMARY}")
tutti_summary("verbs" "${TUTTI_VERBS_SUMMARY}")
tutti_summary("PMIx" "${TUTTI_PMIX_SUMMARY}")
tutti_summary("sanitizers" "${TUTTI_SANITIZE}")
tutti_summary("compiler cache" "${TUTTI_CCACHE}")
