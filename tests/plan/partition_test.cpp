#include <catch2/catch.hpp>

#include "plan/partition.h"

namespace tutti {
namespace {

// Walks all pieces in order; they must follow each other from the first byte to the last.
void require_exact_cover(uint64_t count, uint32_t element_bytes, int channels, int chunks, uint64_t slice_bytes) {
  INFO("count " << count << ", element " << element_bytes << ", channels " << channels << ", chunks " << chunks
                << ", slice " << slice_bytes);
  Partition partition(count, element_bytes, channels, chunks, slice_bytes);
  uint64_t at = 0;
  bool exact = true;
  for (int channel = 0; channel < channels; ++channel) {
    uint64_t most = partition.slices(channel, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      uint64_t slices = partition.slices(channel, chunk);
      exact = exact && slices >= 1 && slices <= most;
      for (uint64_t slice = 0; slice < slices; ++slice) {
        Piece piece = partition.output(channel, chunk, slice);
        exact = exact && piece.offset_bytes == at && piece.size_bytes <= slice_bytes &&
                piece.size_bytes % element_bytes == 0;
        at += piece.size_bytes;
      }
    }
    exact = exact && (most == 1 || partition.output(channel, 0, most - 1).size_bytes > 0);
  }
  REQUIRE(exact);
  REQUIRE(at == count * element_bytes);
}

TEST_CASE("pieces cover every element exactly once, in order") {
  for (uint64_t count = 0; count <= 200; ++count) {
    for (uint32_t element_bytes : {1, 2, 4, 8}) {
      for (int channels : {1, 2, 3}) {
        for (int chunks : {1, 2, 5, 16}) require_exact_cover(count, element_bytes, channels, chunks, 64);
      }
    }
  }
}

TEST_CASE("odd counts and slices are covered too") {
  for (uint64_t count : {1023, 4096, 99991, 100003}) {
    for (uint64_t slice_bytes : {64, 192, 65536}) {
      for (int chunks = 1; chunks <= 17; ++chunks) require_exact_cover(count, 4, 2, chunks, slice_bytes);
    }
  }
}

TEST_CASE("pieces begin on 64-byte lines when there is a line for every chunk") {
  bool aligned = true;
  for (uint64_t count : {1000, 4099, 65536}) {
    for (int channels = 1; channels <= 3; ++channels) {
      for (int chunks = 1; chunks <= 16; ++chunks) {
        Partition partition(count, 4, channels, chunks, 128);
        for (int channel = 0; channel < channels; ++channel) {
          for (int chunk = 0; chunk < chunks; ++chunk) {
            for (uint64_t slice = 0; slice < partition.slices(channel, chunk); ++slice) {
              Piece piece = partition.output(channel, chunk, slice);
              aligned = aligned && (piece.size_bytes == 0 || piece.offset_bytes % 64 == 0);
            }
          }
        }
      }
    }
  }
  REQUIRE(aligned);
}

TEST_CASE("chunks differ by one line and what the last line lacks") {
  Partition partition(16 * 103 + 5, 4, 1, 7, 1 << 20);
  uint64_t least = UINT64_MAX, most = 0;
  for (int chunk = 0; chunk < 7; ++chunk) {
    least = std::min(least, partition.output(0, chunk, 0).size_bytes);
    most = std::max(most, partition.output(0, chunk, 0).size_bytes);
  }
  REQUIRE(most - least < 2 * 64);
}

TEST_CASE("slices of a chunk differ by one line and what the last line lacks") {
  for (uint64_t count : {uint64_t{17}, uint64_t{32}, uint64_t{33}, uint64_t{1000}, uint64_t{99991}}) {
    for (uint64_t slice_bytes : {64, 128, 4096}) {
      INFO(count << " elements, slices of " << slice_bytes << " bytes");
      Partition partition(count, 4, 1, 1, slice_bytes);
      const uint64_t slices = partition.slices(0, 0);
      CHECK(slices == (count * 4 + slice_bytes - 1) / slice_bytes);
      uint64_t least = UINT64_MAX, most = 0;
      for (uint64_t slice = 0; slice < slices; ++slice) {
        least = std::min(least, partition.slice_bytes(0, 0, slice));
        most = std::max(most, partition.slice_bytes(0, 0, slice));
      }
      CHECK(most - least < 2 * 64);
      CHECK(partition.slice_bytes(0, 0, slices) == 0);
    }
  }
}

TEST_CASE("an empty message still has one empty slice") {
  Partition partition(0, 4, 2, 3, 64);
  REQUIRE(partition.slices(1, 2) == 1);
  REQUIRE(partition.output(1, 2, 0).size_bytes == 0);
}

TEST_CASE("counts beyond 32 bits neither wrap nor lose elements") {
  uint64_t slice_bytes = uint64_t{1} << 30;
  require_exact_cover((uint64_t{1} << 31) + 1, 1, 1, 3, slice_bytes);
  require_exact_cover((uint64_t{1} << 33) + 7, 8, 2, 5, slice_bytes);
  Partition huge((uint64_t{1} << 60) - 1, 8, 1, 2, slice_bytes);
  REQUIRE(huge.slices(0, 1) == uint64_t{1} << 32);
  Piece last = huge.output(0, 1, huge.slices(0, 1) - 1);
  REQUIRE(last.offset_bytes + last.size_bytes == ((uint64_t{1} << 60) - 1) * 8);
  REQUIRE(huge.output(0, 1, UINT64_MAX).size_bytes == 0);
}

TEST_CASE("blocks follow each other, or lie where the displacements say") {
  constexpr Blocks kOne{}, kPerRank{.modulo = 3};
  Partition gathers(10, 4, 1, 64, kOne, kPerRank, 1);
  CHECK(gathers.first_is_largest());
  CHECK(gathers.input(0, 1, 0).offset_bytes == 0);
  CHECK(gathers.output(0, 2, 0).offset_bytes == 80);
  CHECK(gathers.output(0, 2, 0).size_bytes == 40);

  uint64_t counts[] = {100, 0, 7}, displacements[] = {50, 3, 0};
  Partition listed(0, 4, 1, 64, kOne, {.counts = counts, .displacements = displacements, .modulo = 3}, 1);
  CHECK_FALSE(listed.first_is_largest());
  CHECK(listed.slices(0, 0) == 7);
  CHECK(listed.slices(0, 1) == 1);
  CHECK(listed.output(0, 0, 6).offset_bytes == 200 + 6 * 64);
  CHECK(listed.output(0, 0, 6).size_bytes == 400 - 6 * 64);
  CHECK(listed.output(0, 1, 0).size_bytes == 0);
  CHECK(listed.output(0, 2, 0).offset_bytes == 0);
}

TEST_CASE("of an exchange each rank knows what it sends and what it receives") {
  // Rank 1 of 2: chunk 2 goes to rank 0, chunk 3 stays, chunk 1 comes from rank 0.
  uint64_t sent[] = {5, 6}, sent_at[] = {0, 5}, received[] = {9, 6}, received_at[] = {0, 9};
  Partition partition(0, 8, 1, 64, {sent, sent_at, 1, 2}, {received, received_at, 2, 2}, 1);
  CHECK(partition.size_bytes(0, 2) == 5 * 8);
  CHECK(partition.size_bytes(0, 3) == 6 * 8);
  CHECK(partition.size_bytes(0, 1) == 9 * 8);
  CHECK(partition.slices(0, 1) == 2);
  CHECK(partition.input(0, 3, 0).offset_bytes == 5 * 8);
  CHECK(partition.output(0, 3, 0).offset_bytes == 9 * 8);
  CHECK(partition.output(0, 1, 1).offset_bytes == 64);
}

TEST_CASE("channels cut each block") {
  Partition partition(100, 4, 2, 64, {.modulo = 2}, {}, 0);
  uint64_t first = partition.size_bytes(0, 1), second = partition.size_bytes(1, 1);
  CHECK(first + second == 400);
  CHECK(partition.input(1, 1, 0).offset_bytes == 400 + first);
  CHECK(partition.output(1, 1, 0).offset_bytes == first);
}

}  // namespace
}  // namespace tutti
