// Catch2 2's header name, for Catch2 3: the tests use what both have.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;  // NOLINT(google-global-names-in-headers): as Catch2 2 has it
