# For programs and libraries that run on every Linux from glibc 2.28 on (manylinux_2_28), and need nothing that such a
# system may lack. It lies in the folder that `prepare` made.
set(manylinux ${CMAKE_CURRENT_LIST_DIR})
set(CMAKE_CXX_FLAGS_INIT "-include ${manylinux}/old_glibc.h")
# Start files and libraries are looked for there first. What this system's own libraries ask for is not there.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${manylinux}/glibc -Wl,--allow-shlib-undefined")
endforeach()
# Programs otherwise have copies of libc's variables, and where one has two names (environ, __environ) only one is
# theirs.
add_compile_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-fPIC>)

set(TUTTI_EMBED_DEPENDENCIES ON CACHE BOOL "" FORCE)
set(OPENSSL_USE_STATIC_LIBS ON)
set(ENV{PKG_CONFIG_PATH} ${manylinux}/lib/pkgconfig)
