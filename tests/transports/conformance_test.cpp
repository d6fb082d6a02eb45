// What every transport must do with data. Runs on all of them.
#include <thread>

#include "transports/checks.h"
#include "transports/implementations.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 4 << 20;
constexpr uint64_t kData = 64 * 64;  // lines come first in every window

std::span<const std::byte> bytes_at(const Window& window, uint64_t offset, size_t size) {
  return window.mapping.bytes().subspan(offset, size);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("put is visible before its signal", "", Implementations) {
  Job job(TestType::make(), 2, kWindow);
  check_ok(job.status());
  struct Case {
    size_t size_bytes, to, from;
  };
  std::vector<Case> cases = {{0, 0, 0},      {1, 0, 0},      {1, 3, 7},         {63, 1, 2},          {64, 0, 0},
                             {4095, 5, 1},   {4096, 0, 0},   {65536, 0, 0},     {65537, 63, 9},      {1 << 20, 0, 0},
                             {1234567, 1, 3}, {(2 << 20) + 1, 17, 31}};
  auto source = pattern((3 << 20), 7);
  std::atomic<int> finished{0};
  auto statuses = on_threads(2, [&](int rank) -> Status {
    for (size_t i = 0; i < cases.size(); ++i) {
      auto [size, to, from] = cases[i];
      uint64_t turn = i + 1;
      if (rank == 0) {
        Line line{{turn, size, turn * 3, 0, 0, 0, 0, ~turn}};
        TUTTI_TRY(put(job.link(0, 1), job.slice(0, 1, kData + to), std::span(source).subspan(from, size),
                      job.slice(0, 1, 0), line));
        TUTTI_TRY(await(job.link(0, 1), job.window(0).line(64), turn));
      } else {
        TUTTI_TRY(await(job.link(1, 0), job.window(1).line(0), turn));
        const Line& line = *job.window(1).line(0);
        bool right = line.words[1] == size && line.words[2] == turn * 3 && line.words[7] == ~turn &&
                     same(bytes_at(job.window(1), kData + to, size), std::span(source).subspan(from, size));
        if (!right) return error(Code::kInternal, "case {} arrived wrong", i);
        TUTTI_TRY(signal(job.link(1, 0), job.slice(1, 0, 64), Line{{turn}}));
      }
    }
    ++finished;
    return await_until([&] { return finished == 2; }, {&job.link(rank, 1 - rank)});
  });
  check_all_ok(statuses);
}

TEMPLATE_LIST_TEST_CASE("puts and signals arrive in order", "", Implementations) {
  constexpr uint64_t kPuts = 3000;
  Job job(TestType::make(), 2, kWindow);
  check_ok(job.status());
  std::vector<std::vector<std::byte>> sources;
  for (uint64_t i = 0; i < 16; ++i) sources.push_back(pattern(1 + i * 211, i));
  std::atomic<bool> finished{false};
  auto statuses = on_threads(2, [&](int rank) -> Status {
    Link& link = job.link(rank, 1 - rank);
    if (rank == 1) {
      uint64_t before = 0;
      while (before < kPuts) {
        TUTTI_TRY(await(link, job.window(1).line(0), before + 1));
        uint64_t now = counter_of(job.window(1).line(0));
        for (uint64_t k = before; k < now; ++k) {
          // Every put so far has its own place, so all of them must be there by now.
          auto& expected = sources[k % 16];
          if (!same(bytes_at(job.window(1), kData + (k % 512) * 4096, expected.size()), expected)) {
            return error(Code::kInternal, "put {} is not there at signal {}", k, now);
          }
        }
        before = now;
        TUTTI_TRY(signal(link, job.slice(1, 0, 0), Line{{before}}));
      }
      return await_until([&] { return finished.load(); }, {&link});
    }
    for (uint64_t k = 0; k < kPuts; ++k) {
      if (k >= 500) TUTTI_TRY(await(link, job.window(0).line(0), k - 499));
      TUTTI_TRY(
          put(link, job.slice(0, 1, kData + (k % 512) * 4096), sources[k % 16], job.slice(0, 1, 0), Line{{k + 1}}));
    }
    TUTTI_TRY(await(link, job.window(0).line(0), kPuts));
    finished = true;
    return {};
  });
  check_all_ok(statuses);
}

TEMPLATE_LIST_TEST_CASE("a full link recovers and loses nothing", "", Implementations) {
  constexpr uint64_t kPuts = 400;
  constexpr size_t kSize = 100'003;
  Job job(TestType::make(), 2, kWindow);
  check_ok(job.status());
  std::vector<std::vector<std::byte>> sources;
  for (uint64_t i = 0; i < 7; ++i) sources.push_back(pattern(kSize, i));
  Link& sender = job.link(0, 1);
  // The receiver does not poll at first: a transport with queues must say kFull rather than block or grow.
  uint64_t sent = 0;
  bool full = false;
  while (sent < kPuts && !full) {
    auto result = sender.put(job.slice(0, 1, kData + (sent % 7) * kSize), sources[sent % 7], job.slice(0, 1, 0),
                             Line{{sent + 1}});
    REQUIRE(result.ok());
    full = *result == PutResult::kFull;
    if (!full) ++sent;
  }
  auto statuses = on_threads(2, [&](int rank) -> Status {
    if (rank == 1) return await(job.link(1, 0), job.window(1).line(0), kPuts);
    for (uint64_t k = sent; k < kPuts; ++k) {
      TUTTI_TRY(
          put(sender, job.slice(0, 1, kData + (k % 7) * kSize), sources[k % 7], job.slice(0, 1, 0), Line{{k + 1}}));
    }
    uint64_t completed = 0;
    return await_until([&] { return sender.poll(&completed).ok() && completed == kPuts; }, {});
  });
  check_all_ok(statuses);
  for (uint64_t i = 0; i < 7; ++i) CHECK(same(bytes_at(job.window(1), kData + i * kSize, kSize), sources[i]));
}

TEMPLATE_LIST_TEST_CASE("both directions move at once", "", Implementations) {
  constexpr uint64_t kPuts = 200;
  constexpr size_t kSize = 300'001;
  Job job(TestType::make(), 2, kWindow);
  check_ok(job.status());
  std::atomic<int> finished{0};
  auto statuses = on_threads(2, [&](int rank) -> Status {
    int peer = 1 - rank;
    Link& link = job.link(rank, peer);
    auto mine = pattern(kSize, static_cast<uint64_t>(rank)), theirs = pattern(kSize, static_cast<uint64_t>(peer));
    for (uint64_t k = 0; k < kPuts; ++k) {
      TUTTI_TRY(put(link, job.slice(rank, peer, kData), mine, job.slice(rank, peer, 0), Line{{k + 1}}));
    }
    TUTTI_TRY(await(link, job.window(rank).line(0), kPuts));
    uint64_t completed = 0;
    TUTTI_TRY(await_until([&] { return link.poll(&completed).ok() && completed == kPuts; }, {}));
    if (!same(bytes_at(job.window(rank), kData, kSize), theirs)) return error(Code::kInternal, "wrong bytes");
    ++finished;
    return await_until([&] { return finished == 2; }, {&link});
  });
  check_all_ok(statuses);
}

TEMPLATE_LIST_TEST_CASE("puts and signals outside the memory are refused and harm nothing", "", Implementations) {
  Job job(TestType::make(), 2, 8192);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  auto source = pattern(8192, 1);
  auto refused = [&](RemoteSlice to, size_t size, RemoteSlice at) {
    auto result = link.put(to, std::span(source).first(size), at, Line{{1}});
    return !result.ok() && result.status().code() == Code::kInvalidArgument && result.status().place().peer == 1;
  };
  CHECK(refused(job.slice(0, 1, 8192), 1, job.slice(0, 1, 0)));
  CHECK(refused(job.slice(0, 1, 1), 8192, job.slice(0, 1, 0)));
  CHECK(refused(job.slice(0, 1, UINT64_MAX), 2, job.slice(0, 1, 0)));
  CHECK(refused(job.slice(0, 1, 0), 64, job.slice(0, 1, 8192)));
  CHECK(refused(job.slice(0, 1, 0), 64, job.slice(0, 1, 8192 - 32)));
  CHECK(refused(job.slice(0, 1, 0), 64, job.slice(0, 1, 8)));
  CHECK(refused(job.slice(0, 1, 0), 64, job.slice(0, 1, UINT64_MAX - 63)));
  CHECK(refused({}, 64, job.slice(0, 1, 0)));
  CHECK(refused(job.slice(0, 1, 0), 64, {}));
  CHECK(!link.signal(job.slice(0, 1, 8192), Line{{1}}).ok());

  check_ok(put(link, job.slice(0, 1, 4096), std::span(source).first(4096), job.slice(0, 1, 64), Line{{9}}));
  check_ok(await_until([&] { return counter_of(job.window(1).line(64)) == 9; }, {&job.link(0, 1), &job.link(1, 0)}));
  CHECK(counter_of(job.window(1).line(0)) == 0);
}

TEMPLATE_LIST_TEST_CASE("pulls and pushes copy the peer's private memory exactly", "", Implementations) {
  Job job(TestType::make(), 2, 8192);
  check_ok(job.status());
  auto source = pattern(3'000'017, 5);
  std::vector<std::byte> target(source.size());
  Link& link = job.link(0, 1);
  CHECK(link.traits() == job.link(1, 0).traits());
  auto from = reinterpret_cast<uint64_t>(source.data()), to = reinterpret_cast<uint64_t>(target.data());
  if (!link.traits().pullable) {
    CHECK(link.pull(target, from).code() == Code::kInvalidUsage);
    CHECK(link.push(source, to).code() == Code::kInvalidUsage);
    return;
  }
  check_ok(link.pull(target, from));
  CHECK(target == source);
  check_ok(link.pull({}, from));
  std::vector<std::byte> between(source.size() + 200, std::byte{7}), expected = between;
  std::copy(source.begin(), source.end(), expected.begin() + 100);
  check_ok(link.push(source, reinterpret_cast<uint64_t>(between.data() + 100)));
  CHECK(between == expected);
  check_ok(link.push({}, to));
}

TEMPLATE_LIST_TEST_CASE("puts land in the memory that the peer names, and nowhere else", "", Implementations) {
  Job job(TestType::make(), 2, 8192);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  Link& back = job.link(1, 0);
  const RemoteMemory* landing = link.find(kLanding);
  REQUIRE((landing != nullptr) == link.traits().lands);
  if (landing == nullptr) return;
  constexpr size_t kBytes = 1'000'001;
  auto source = pattern(kBytes, 7);
  uint64_t number = 0;
  auto arrives = [&](std::vector<std::byte>& target, uint64_t offset, size_t size) {
    constexpr uint64_t kAt = 1 << 20;
    back.land_in(kAt, target);
    check_ok(put(link, {landing, kAt + offset}, std::span(source).first(size), job.slice(0, 1, 0), Line{{++number}}));
    Status came = await_until([&] { return counter_of(job.window(1).line(0)) == number; }, {&link, &back});
    back.land_no_more(kAt);
    return came;
  };
  std::vector<std::byte> first(kBytes), second(kBytes + 100, std::byte{1});
  check_ok(arrives(first, 0, kBytes));
  CHECK(first == source);
  check_ok(arrives(second, 37, kBytes));
  CHECK(same(source, std::span(second).subspan(37, kBytes)));
  CHECK(second[36] == std::byte{1});
  CHECK(second[37 + kBytes] == std::byte{1});
  SECTION("each has its place, whatever becomes of the others") {
    std::vector<std::byte> third(kBytes);
    back.land_in(kBytes, third);
    back.land_in(7, std::span(first).first(10));
    back.land_no_more(7);
    check_ok(put(link, {landing, kBytes}, source, job.slice(0, 1, 0), Line{{++number}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == number; }, {&link, &back}));
    CHECK(third == source);
    back.land_no_more(kBytes);
    CHECK_FALSE(arrives(third, kBytes, 1).ok());
  }
  auto large = pattern(32 << 20, 8);  // more than sockets take at once
  std::vector<std::byte> target(large.size());
  uint64_t completed = 0;
  auto begin_large_at = [&](uint64_t at) {
    check_ok(link.put({landing, at}, large, job.slice(0, 1, 0), Line{{++number}}).status());
    while (!std::equal(large.begin(), large.begin() + 64, target.begin())) {
      check_ok(link.poll(&completed));
      check_ok(back.poll(&completed));
    }
    REQUIRE(counter_of(job.window(1).line(0)) != number);
  };
  SECTION("the same memory may be two") {
    back.land_in(0, target);
    back.land_in(target.size(), target);
    begin_large_at(target.size());
    back.land_no_more(0);
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == number; }, {&link, &back}));
    CHECK(target == large);
  }
  SECTION("a put beyond it breaks the link") { CHECK_FALSE(arrives(second, 101, kBytes).ok()); }
  SECTION("so does one where there is none") {
    std::vector<std::byte> none;
    CHECK_FALSE(arrives(none, 0, 1).ok());
  }
  SECTION("and one that is on its way when the memory is no landing any more") {
    back.land_in(0, target);
    begin_large_at(0);
    back.land_no_more(0);
    CHECK_FALSE(back.poll(&completed).ok());
  }
}

TEMPLATE_LIST_TEST_CASE("a payload goes where its receiver diverts it", "", Implementations) {
  constexpr size_t kLarge = 32 << 20;  // more than sockets take at once
  Job job(TestType::make(), 2, kData + kLarge);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  Link& back = job.link(1, 0);
  if (!back.traits().lands) return;
  constexpr size_t kBytes = 200'001;
  auto source = pattern(kBytes, 9);
  const Line& signal = *job.window(1).line(0);
  std::vector<std::byte> place(kBytes);
  std::vector<std::byte> nothing(kBytes);
  uint64_t number = 0;
  auto arrives = [&](uint64_t offset, size_t size) {
    check_ok(put(link, job.slice(0, 1, kData + offset), std::span(source).first(size), job.slice(0, 1, 0),
                 Line{{++number}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == number; }, {&link, &back}));
  };
  auto is_exported = [&](std::span<const std::byte> expected) {
    return same(bytes_at(job.window(1), kData, expected.size()), expected);
  };
  SECTION("by the number of its signal, once") {
    back.divert(signal, 2, place);
    arrives(1, kBytes);
    CHECK(place == nothing);
    arrives(0, kBytes);
    CHECK(place == source);
    CHECK(same(bytes_at(job.window(1), kData + 1, kBytes), source));
    std::fill(place.begin(), place.end(), std::byte{0});
    arrives(0, kBytes);
    CHECK(place == nothing);
    CHECK(is_exported(source));
    CHECK(back.divert_no_more(signal));
    CHECK_FALSE(back.divert_no_more(signal));
  }
  SECTION("but no other") {
    back.divert(signal, 1, place);
    arrives(0, kBytes - 1);
    CHECK(place == nothing);
    CHECK_FALSE(back.divert_no_more(signal));
    back.divert(signal, 2, place);
    CHECK_FALSE(back.divert_no_more(signal));
    arrives(0, kBytes);
    CHECK(is_exported(source));
    CHECK(place == nothing);
  }
  SECTION("each signal's its own") {
    auto different = pattern(kBytes, 11);
    std::vector<std::byte> other(kBytes);
    back.divert(signal, 1, place);
    back.divert(*job.window(1).line(64), 1, other);
    check_ok(put(link, job.slice(0, 1, kData), different, job.slice(0, 1, 64), Line{{1}}));
    arrives(0, kBytes);
    CHECK(place == source);
    CHECK(other == different);
    CHECK(is_exported(nothing));
  }
  SECTION("also the one behind another large one, once that is here") {
    check_ok(put(link, job.slice(0, 1, kData), source, job.slice(0, 1, 0), Line{{++number}}));
    check_ok(put(link, job.slice(0, 1, kData + kBytes), source, job.slice(0, 1, 0), Line{{++number}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, {&link, &back}));
    back.divert(signal, 2, place);
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 2; }, {&link, &back}));
    CHECK(place == source);
    CHECK(is_exported(source));
  }
  auto large = pattern(kLarge, 10);
  std::vector<std::byte> large_place(kLarge);
  uint64_t completed = 0;
  auto begin_large_at = [&](const std::byte* begun) {
    check_ok(link.put(job.slice(0, 1, kData), large, job.slice(0, 1, 0), Line{{++number}}).status());
    while (!std::equal(large.begin(), large.begin() + 64, begun)) {
      check_ok(link.poll(&completed));
      check_ok(back.poll(&completed));
    }
    REQUIRE(counter_of(job.window(1).line(0)) != number);
  };
  SECTION("nor one that comes already") {
    begin_large_at(bytes_at(job.window(1), kData, kLarge).data());
    back.divert(signal, number, large_place);
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == number; }, {&link, &back}));
    CHECK(is_exported(large));
    CHECK_FALSE(back.divert_no_more(signal));
  }
  SECTION("one that is on its way when it may go there no more breaks the link") {
    back.divert(signal, 1, large_place);
    begin_large_at(large_place.data());
    CHECK(back.divert_no_more(signal));
    CHECK_FALSE(back.poll(&completed).ok());
  }
}

TEMPLATE_LIST_TEST_CASE("mapped memory is the peer's own", "", Implementations) {
  Job job(TestType::make(), 2, 8192);
  check_ok(job.status());
  const RemoteMemory* remote = job.remote(0, 1);
  CHECK(remote->size_bytes == 8192);
  CHECK((remote->mapped != nullptr) == job.link(0, 1).traits().mappable);
  CHECK((job.link(0, 1).needs_poll() || job.link(0, 1).traits().mappable));
  if (remote->mapped != nullptr) {
    remote->mapped[5000] = std::byte{42};
    check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{1}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, {&job.link(0, 1), &job.link(1, 0)}));
    CHECK(*job.window(1).at(5000) == std::byte{42});
  }
}

}  // namespace tutti::test
