// The cache of registrations: what is registered, for how long, and what the peer knows of it.
#include <algorithm>
#include <cstring>
#include <deque>

#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 64 << 10;

// Memory of rank 1 beside its window, shared with rank 0.
struct Regions {
  Regions(const VerbsOptions& options, int count) : job(verbs_over_one_lane(options), 2, kWindow) {
    check_ok(job.status());
    for (int i = 0; i < count; ++i) {
      memory.push_back(job.node(1).add_window(kWindow).exported);
      shared.push_back(job.link(1, 0).share(*memory.back()));
    }
    settle();
  }
  // Until what was said has been heard.
  void settle() {
    uint64_t completed = 0;
    for (int i = 0; i < 10; ++i) {
      check_ok(job.link(1, 0).poll(&completed));
      check_ok(job.link(0, 1).poll(&completed));
    }
  }
  const RemoteMemory* found(size_t region) { return job.link(0, 1).find(memory[region]->id); }
  void use(size_t region) {
    check_ok(job.node(1).transport->use(memory[region]));
    settle();
  }
  // Whether a put into the region lands there.
  bool lands(size_t region) {
    auto content = pattern(30'000, ++turn);
    check_ok(put(job.link(0, 1), {found(region), 64}, content, job.slice(0, 1, 0), Line{{turn}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == turn; },
                         {&job.link(0, 1), &job.link(1, 0)}));
    return std::memcmp(memory[region]->bytes.data() + 64, content.data(), content.size()) == 0;
  }

  Fake fake;
  Job job;
  std::vector<const LocalMemory*> memory;
  std::vector<Status> shared;
  uint64_t turn = 0;
};

}  // namespace

TEST_CASE("what was used longest ago is registered no more, and again when it is used") {
  auto options = GENERATE(VerbsOptions{.regions = 2}, VerbsOptions{.region_bytes = 2 * kWindow + 100});
  Regions regions(options, 3);
  CHECK(regions.found(0) == nullptr);
  REQUIRE(regions.found(1) != nullptr);
  REQUIRE(regions.found(2) != nullptr);
  CHECK(regions.lands(1));
  CHECK(regions.lands(2));
  regions.use(1);
  regions.use(0);
  REQUIRE(regions.found(0) != nullptr);
  CHECK(regions.found(0)->size_bytes == kWindow);
  CHECK(regions.found(1) != nullptr);
  CHECK(regions.found(2) == nullptr);
  CHECK(regions.lands(0));
  check_used_well(regions.fake);
}

TEST_CASE("what is held stays registered, whatever is used, until it is let go") {
  Regions regions({.regions = 2}, 3);
  Transport& transport = *regions.job.node(1).transport;
  REQUIRE(regions.found(1) != nullptr);
  transport.hold(regions.memory[1]);
  for (int turn = 0; turn < 3; ++turn) {
    regions.use(2);
    regions.use(0);
  }
  REQUIRE(regions.found(1) != nullptr);
  CHECK(regions.lands(1));
  transport.let_go(regions.memory[1]);
  regions.use(2);
  regions.use(0);
  CHECK(regions.found(1) == nullptr);
  check_used_well(regions.fake);
}

TEST_CASE("what finds no room beside what is held is not registered, and is once there is some") {
  Regions regions({.region_bytes = kWindow}, 1);
  Transport& transport = *regions.job.node(1).transport;
  transport.hold(regions.memory[0]);
  const LocalMemory* other = regions.job.node(1).add_window(kWindow).exported;
  CHECK(!regions.job.link(1, 0).share(*other).ok());
  regions.settle();
  CHECK(regions.found(0) != nullptr);
  CHECK(regions.job.link(0, 1).find(other->id) == nullptr);
  check_ok(signal(regions.job.link(1, 0), regions.job.slice(1, 0, 0), Line{{1}}));
  transport.let_go(regions.memory[0]);
  check_ok(transport.use(other));
  regions.settle();
  CHECK(regions.found(0) == nullptr);
  CHECK(regions.job.link(0, 1).find(other->id) != nullptr);
}

TEST_CASE("where the system locks no more, what was used longest ago makes room") {
  Fake before;
  uint64_t least = 0;
  {
    Regions none({}, 0);
    least = none.fake.counts().registered_bytes;
  }
  before.verbs->set_faults({.lockable_bytes = least + 2 * kWindow});
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  std::vector<const LocalMemory*> memory;
  for (int i = 0; i < 4; ++i) {
    memory.push_back(job.node(1).add_window(kWindow).exported);
    check_ok(job.link(1, 0).share(*memory.back()));
  }
  uint64_t completed = 0;
  for (int i = 0; i < 10; ++i) check_ok(job.link(0, 1).poll(&completed));
  CHECK(job.link(0, 1).find(memory[0]->id) == nullptr);
  CHECK(job.link(0, 1).find(memory[3]->id) != nullptr);
  check_used_well(before);
}

// What its device refuses is no matter of room.
TEST_CASE("where a device fails, what is shared goes over the other one, and nothing makes room for it") {
  Fake fake;
  Job job(verbs_with({.device = "fake0,fake0,fake1,fake1"}), 2, kWindow);
  check_ok(job.status());
  const LocalMemory* before = job.node(1).add_window(kWindow).exported;
  check_ok(job.link(1, 0).share(*before));
  std::vector<Link*> links = {&job.link(0, 1), &job.link(1, 0)};
  check_ok(await_until([&] { return job.link(0, 1).find(before->id) != nullptr; }, links));
  fake.verbs->set_faults({.gone_device = "fake0"});
  check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{1}}));
  check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, links));
  const LocalMemory* after = job.node(1).add_window(kWindow).exported;
  check_ok(job.link(1, 0).share(*after));
  check_ok(await_until([&] { return job.link(0, 1).find(after->id) != nullptr; }, links));
  for (const LocalMemory* each : {before, after}) {
    const RemoteMemory* found = job.link(0, 1).find(each->id);
    REQUIRE(found != nullptr);
    auto content = pattern(30'000, each->id);
    check_ok(put(job.link(0, 1), {found, 64}, content, job.slice(0, 1, 64), Line{{each->id}}));
    check_ok(await_until([&] { return counter_of(job.window(1).line(64)) == each->id; }, links));
    CHECK(std::equal(content.begin(), content.end(), each->bytes.begin() + 64));
  }
  CHECK(fake.counts().mistakes == 0);
}

TEST_CASE("memory that no device took is tried again when another device comes into use") {
  Fake fake;
  fake.verbs->set_ports({{.device = "eth0", .speed_code = 128},
                         {.device = "ib0", .infiniband = true, .lid = 4, .speed_code = 64, .gids = {{0, "fe80::4"}}},
                         {.device = "eth1", .gids = {{1, "fe80::2"}, {2, "::ffff:10.0.0.2"}}},
                         {.device = "ib1", .infiniband = true, .lid = 5, .gids = {{0, "fe80::5"}}}});
  constexpr const char* kDevices[] = {"", "eth1", "ib1"};
  Factory factory = [&](const TransportContext& context) {
    return verbs_with({.device = kDevices[context.rank]})(context);
  };
  std::deque<Node> nodes;
  for (int rank = 0; rank < 3; ++rank) {
    nodes.emplace_back(factory, rank, 3, 77);
    nodes.back().add_window(kWindow);
    check_ok(nodes.back().listen());
  }
  auto link_to = [&](int peer) {
    Blob addresses[] = {nodes[0].transport->address(), nodes[peer].transport->address()};
    check_all_ok(on_threads(2, [&](int which) {
      return nodes[which == 0 ? 0 : peer].connect(which == 0 ? peer : 0, addresses[1 - which],
                                                  Deadline::after_ms(kPatienceMs));
    }));
  };
  link_to(1);
  const LocalMemory* memory = nodes[0].add_window(kWindow).exported;
  fake.verbs->set_faults({.lockable_bytes = fake.counts().registered_bytes});
  CHECK_FALSE(nodes[0].transport->use(memory).ok());
  fake.verbs->set_faults({});
  link_to(2);
  check_ok(nodes[0].transport->use(memory));
  check_ok(nodes[0].link(2).share(*memory));
  check_ok(await_until([&] { return nodes[2].link(0).find(memory->id) != nullptr; },
                       {&nodes[0].link(2), &nodes[2].link(0)}));
  for (Node& node : nodes) node.links.clear();
  check_used_well(fake);
}

TEST_CASE("memory that is given up while it is on its way stays registered until it has left") {
  Fake fake;
  Job job(verbs_over_one_lane({.regions = 2}), 2, kWindow);
  check_ok(job.status());
  const LocalMemory* source = job.node(0).add_window(kWindow).exported;
  check_ok(job.link(0, 1).share(*source));
  auto content = pattern(32 << 10, 9);
  std::copy(content.begin(), content.end(), source->bytes.begin());
  fake.verbs->set_faults({.lag = 6});
  check_ok(put(job.link(0, 1), job.slice(0, 1, 4096), source->bytes.first(content.size()), job.slice(0, 1, 0),
               Line{{1}}));
  for (int i = 0; i < 3; ++i) {
    check_ok(job.node(0).transport->use(job.node(0).add_window(kWindow).exported));
  }
  check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, {&job.link(0, 1), &job.link(1, 0)}));
  CHECK(std::memcmp(job.window(1).at(4096), content.data(), content.size()) == 0);
  check_used_well(fake);
}

}  // namespace tutti::test
