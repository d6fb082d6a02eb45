# tutti_catch: Catch2 with its main(). Tests include <catch2/catch.hpp>, which is Catch2 2's header; for Catch2 3 a
# header of that name is in catch2_compat.
find_package(Catch2 REQUIRED)
add_library(tutti_catch INTERFACE)
if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
  target_include_directories(tutti_catch INTERFACE ${PROJECT_SOURCE_DIR}/cmake/catch2_compat)
  target_link_libraries(tutti_catch INTERFACE Catch2::Catch2WithMain)
elseif(TARGET Catch2::Catch2WithMain AND NOT CMAKE_CROSSCOMPILING)
  target_link_libraries(tutti_catch INTERFACE Catch2::Catch2WithMain)
else()
  # Debian's package holds the main() of the machine that builds only.
  file(WRITE ${PROJECT_BINARY_DIR}/catch_main.cpp "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
  add_library(tutti_catch_main STATIC ${PROJECT_BINARY_DIR}/catch_main.cpp)
  target_link_libraries(tutti_catch_main PUBLIC Catch2::Catch2)
  target_link_libraries(tutti_catch INTERFACE tutti_catch_main)
endif()
