# libtutti.so: the C entry points of core and what they reach of the layers beneath.
if(NOT TARGET tutti_core)
  return()
endif()

set(exports ${PROJECT_SOURCE_DIR}/cmake/tutti.map)
add_library(tutti SHARED $<TARGET_OBJECTS:tutti_core>)
add_library(tutti::tutti ALIAS tutti)
target_link_libraries(tutti PRIVATE tutti_core)
if(OPENSSL_USE_STATIC_LIBS)
  target_link_options(tutti PRIVATE LINKER:-z,nodelete) # as OpenSSL's own: threads end in it that used it
endif()
target_include_directories(tutti PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(tutti PRIVATE LINKER:--version-script=${exports})
if(NOT TUTTI_SANITIZE AND NOT TUTTI_FUZZ)
  target_link_options(tutti PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(tutti PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${exports}
  INSTALL_RPATH "$ORIGIN")
