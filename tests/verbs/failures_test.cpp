// What a verbs link makes of devices, memory and fabrics that fail.
#include <thread>

#include "transports/verbs/causes.h"
#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 1 << 16;

// Both ends' first errors, connecting for as long as it takes.
std::vector<Status> connected(const Factory& factory) {
  Node a(factory, 0, 2, 88), b(factory, 1, 2, 88);
  for (Node* node : {&a, &b}) {
    node->add_window(kWindow);
    check_ok(node->listen());
  }
  auto statuses = connect_ranks({&a, &b}, Deadline::after_ms(kPatienceMs));
  for (Node* node : {&a, &b}) CHECK(node->links[1 - node->rank]->both_gave_up() == !statuses[node->rank].ok());
  return statuses;
}

Status listen_with(const VerbsOptions& options) {
  Node node(verbs_with(options), 0, 2, 89);
  return node.listen();
}

}  // namespace

TEST_CASE("a machine without the library, a device or a port that is up says so in one sentence") {
  Fake fake;
  TransportContext context{.rank = 0, .nranks = 2, .job = 1, .token = {}, .interface = {}};
  Status no_library = make_verbs_transport(context, {.library = "libnowhere.so.7"})->listen();
  CHECK(mentions(no_library, "libibverbs is not there (libnowhere.so.7"));
  Status not_verbs = make_verbs_transport(context, {.library = "libm.so.6"})->listen();
  CHECK(mentions(not_verbs, "libm.so.6 has no ibv_get_device_list"));
  fake.verbs->set_ports({});
  CHECK(mentions(listen_with({}), "there is no RDMA device"));
  fake.verbs->set_ports({FakePort{.active = false}});
  CHECK(mentions(listen_with({}), "no port of an RDMA device is up; there are: fake0:1 (down)"));
  fake.verbs->reset();
  CHECK(mentions(listen_with({.device = "mlx5_0"}), "fake0:1 (up), fake1:1 (up)"));
  CHECK(mentions(listen_with({.gid_index = 9}), "fake0 port 1 has no GID 9"));
}

TEST_CASE("a port that is of no use is left out for the next one") {
  Fake fake;
  std::vector<FakeGid> three = {{1, "fe80::2"}, {2, "::ffff:10.0.0.2"}, {2, "::ffff:10.0.1.2"}};
  fake.verbs->set_ports({FakePort{}, FakePort{.device = "fake1", .gids = three}});
  check_ok(listen_with({.gid_index = 2}));
}

TEST_CASE("memory that cannot be registered ends connect on both sides, with a hint") {
  Fake fake;
  fake.verbs->set_faults({.lockable_bytes = GENERATE(1000u, 200'000u)});
  auto statuses = connected(verbs_with({}));
  for (const Status& status : statuses) CHECK(mentions(status, "ulimit -l"));
}

TEST_CASE("a path on which nothing crosses, or not what was sent, ends connect on both sides") {
  Fake fake;
  bool cut = GENERATE(true, false);
  fake.verbs->set_faults({.cut = cut, .corrupts_writes = !cut});
  auto statuses = connected(verbs_with({}));
  for (const Status& status : statuses) {
    INFO(status.message());
    CHECK(status.code() == Code::kRemote);
    CHECK(mentions(status, cut ? "no longer answers" : "arrived wrong"));
    CHECK(mentions(status, "fake0 port 1"));
    CHECK(mentions(status, "fake1 port 1"));
  }
}

TEST_CASE("both ends hear what stands in the way, also when it comes while one is about to sleep") {
  Fake fake;
  int lag = GENERATE(0, 1, 2);  // nothing crosses while both sleep
  INFO("found after " << lag << " looks");
  fake.verbs->set_faults({.corrupts_writes = true, .lag = lag});
  for (const Status& status : connected(verbs_with({}))) {
    INFO(status.message());
    CHECK(status.code() == Code::kRemote);
    CHECK(mentions(status, "arrived wrong"));
  }
}

TEST_CASE("a way on which large packets are lost is found out at the start") {
  Fake fake;
  fake.verbs->set_faults({.most_bytes = 4095});
  auto statuses = connected(verbs_with({}));
  for (const Status& status : statuses) CHECK(mentions(status, "packets of 4096 bytes are lost"));
}

TEST_CASE("where a port does not work, ranks go on over those that do") {
  Fake fake;
  std::string broken = GENERATE("fake0", "fake1");
  fake.verbs->set_faults({.cut_device = broken});
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  auto source = pattern(50'000, 1);
  check_ok(put(job.link(0, 1), job.slice(0, 1, 4096), source, job.slice(0, 1, 0), Line{{1}}));
  check_ok(put(job.link(1, 0), job.slice(1, 0, 4096), source, job.slice(1, 0, 0), Line{{1}}));
  for (int rank : {0, 1}) {
    check_ok(await_until([&] { return counter_of(job.window(rank).line(0)) == 1; },
                         {&job.link(0, 1), &job.link(1, 0)}));
    CHECK(std::equal(source.begin(), source.end(), job.window(rank).at(4096)));
  }
  check_used_well(fake);
}

TEST_CASE("where nothing crosses between two addresses, the ports try others") {
  Fake fake;
  fake.verbs->set_faults({.cut_address = GENERATE("::ffff:10.0.0.1", "::ffff:10.0.0.2")});
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  check_ok(put(job.link(0, 1), job.slice(0, 1, 4096), pattern(50'000, 1), job.slice(0, 1, 0), Line{{1}}));
  check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, {&job.link(0, 1), &job.link(1, 0)}));
  check_used_well(fake);
}

TEST_CASE("ports that cannot reach each other end connect on both sides and say why") {
  Fake fake;
  fake.verbs->set_ports({FakePort{.device = "old", .gids = {{1, "fe80::1"}}},
                         FakePort{.device = "new", .gids = {{2, "::ffff:10.0.0.2"}}}});
  auto statuses = connected([](const TransportContext& context) {
    return verbs_with({.device = context.rank == 0 ? "old" : "new"})(context);
  });
  for (const Status& status : statuses) CHECK(mentions(status, "no type of GID in common"));
}

TEST_CASE("every error status becomes words that name both ends, and the link stays failed") {
  Fake fake;
  int failing = GENERATE(range(1, 24));  // as many as there are
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.failing_request = 1, .failing_status = failing});
  Link& link = job.link(0, 1);
  CHECK(link.signal(job.slice(0, 1, 0), Line{{1}}).ok());
  Status failure = await_until([] { return false; }, {&link});
  CHECK(failure.code() == Code::kRemote);
  CHECK(failure.place().peer == 1);
  CHECK(mentions(failure, cause_of(static_cast<ibv_wc_status>(failing))));
  CHECK(!mentions(failure, "newer than this version"));
  CHECK(mentions(failure, fmt::format("completion status {}", failing)));
  CHECK(mentions(failure, "from fake0 port 1, queue pair"));
  CHECK(mentions(failure, "to fake1 port 1, queue pair"));
  CHECK(mentions(failure, "::ffff:10.0.0.2"));
  CHECK(link.signal(job.slice(0, 1, 0), Line{{2}}).status().message() == failure.message());
}

TEST_CASE("a request that fails in the middle of a payload is the error, not those swept out behind it") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, 4 << 20);
  check_ok(job.status());
  fake.verbs->set_faults({.failing_request = 5, .failing_status = IBV_WC_REM_ACCESS_ERR, .lag = 1});
  auto source = pattern(2'000'000, 1);
  CHECK(job.link(0, 1).put(job.slice(0, 1, 4096), source, job.slice(0, 1, 0), Line{{1}}).ok());
  Status failure = await_until([] { return false; }, {&job.link(0, 1)});
  CHECK(mentions(failure, cause_of(IBV_WC_REM_ACCESS_ERR)));
  CHECK(counter_of(job.window(1).line(0)) == 0);
}

TEST_CASE("a link that goes down wakes the sleeper with an error") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.cut = true});
  Link& link = job.link(0, 1);
  CHECK(link.signal(job.slice(0, 1, 0), Line{{1}}).ok());
  Status failure;
  Deadline deadline = Deadline::after_ms(5000);
  uint64_t completed = 0;
  while (failure.ok() && !deadline.passed()) {
    failure = link.poll(&completed);
    if (!failure.ok()) break;
    WaitSet waits;
    link.arm(waits);
    waits.sleep(deadline.left_ms());
    link.disarm();
  }
  CHECK(mentions(failure, "a link, cable, switch or route on the way is down"));
}

TEST_CASE("the end of a peer is told rather than what its end does to the queue pair") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  job.link(1, 0).abort();
  job.node(1).links[0].reset();  // its queue pair is gone: what is sent there fails
  (void)job.link(0, 1).signal(job.slice(0, 1, 0), Line{{1}});
  Status failure = await_until([] { return false; }, {&job.link(0, 1)});
  CHECK(mentions(failure, "the peer has died, aborted or closed"));
}

}  // namespace tutti::test
