// Nobody without the key gets through the handshake, in either direction.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "bootstrap/channel.h"
#include "bootstrap/tls.h"

namespace tutti::bootstrap {
namespace {

// OpenSSL's memory, of which there may be none from some allocation on.
std::atomic<long> allocations_left = std::numeric_limits<long>::max();
void* allocate(size_t bytes, const char*, int) { return --allocations_left < 0 ? nullptr : std::malloc(bytes); }
void* reallocate(void* memory, size_t bytes, const char*, int) {
  return --allocations_left < 0 ? nullptr : std::realloc(memory, bytes);
}
void release(void* memory, const char*, int) { std::free(memory); }
const bool kAllocatesHere = CRYPTO_set_mem_functions(allocate, reallocate, release) == 1;

Secret key_of(int number) {
  Secret key{};
  key[0] = static_cast<std::byte>(number);
  return key;
}

struct Pair {
  Fd ours;
  Fd theirs;
};
Pair make_pair(bool theirs_blocks) {
  int ends[2];
  TUTTI_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  if (theirs_blocks) ::fcntl(ends[1], F_SETFL, 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Channel channel_of(Fd fd, int key, TlsRole role) {
  auto context = TlsContext::create(key_of(key))->make_stream(std::move(fd), role);
  return Channel(std::move(context).value(), "the peer", 1 << 20);
}

// Whether a message gets from one end to the other and back.
struct Outcome {
  Status ours;
  Status theirs;
};
Outcome talk(Channel& a, Channel& b) {
  Outcome outcome;
  auto speak = [](Channel& channel) -> Status {
    Deadline deadline = Deadline::after_ms(5'000);
    channel.queue(1, as_bytes("hello"));
    TUTTI_TRY(channel.flush(deadline));
    Frame frame = TUTTI_TRY(channel.receive(deadline));
    return frame.payload.size() == 5 ? Status() : error(Code::kInternal, "wrong bytes");
  };
  std::thread other([&] { outcome.theirs = speak(b); });
  outcome.ours = speak(a);
  other.join();
  return outcome;
}

// Runs our end until it fails, or until a whole message has come through (which must not happen).
Status run_ours(Channel& channel) {
  channel.queue(1, as_bytes("secret things"));
  Deadline deadline = Deadline::after_ms(5'000);
  Status flushed = channel.flush(deadline);
  if (!flushed.ok()) return flushed;
  Result<Frame> frame = channel.receive(deadline);
  return frame.ok() ? Status() : std::move(frame).status();
}

// A self-signed certificate and its key, as a stranger would make them; or one that nobody can decode.
void certify(SSL_CTX* ctx, bool decodes = true) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("x"), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  X509_set_pubkey(certificate, key);
  if (!decodes) {
    ASN1_STRING* no_time = ASN1_STRING_type_new(V_ASN1_INTEGER);
    TUTTI_CHECK(ASN1_STRING_set(no_time, "1", 1) == 1 && X509_set1_notBefore(certificate, no_time) == 1);
    ASN1_STRING_free(no_time);
  }
  X509_sign(certificate, key, EVP_sha256());
  TUTTI_CHECK(SSL_CTX_use_certificate(ctx, certificate) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

unsigned int psk_client(SSL*, const char*, char* identity, unsigned int, unsigned char* psk, unsigned int) {
  std::memcpy(identity, "tutti", 6);
  Secret key = key_of(1);
  std::memcpy(psk, key.data(), key.size());
  return static_cast<unsigned int>(key.size());
}

unsigned int psk_server(SSL*, const char*, unsigned char* psk, unsigned int) {
  Secret key = key_of(1);
  std::memcpy(psk, key.data(), key.size());
  return static_cast<unsigned int>(key.size());
}

// A stranger with plain OpenSSL at the other end: whether it got a byte of application data, and what our end says.
struct Encounter {
  bool leaked = false;
  Status ours;
};
Encounter meet_stranger(TlsRole our_role, const std::function<void(SSL_CTX*)>& prepare) {
  Pair pair = make_pair(true);
  Channel ours = channel_of(std::move(pair.ours), 1, our_role);
  Encounter encounter;
  std::thread stranger([&, fd = std::move(pair.theirs)] {
    SSL_CTX* ctx = SSL_CTX_new(TLS_method());
    prepare(ctx);
    SSL* ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd.get());
    int done = our_role == TlsRole::kAccepts ? SSL_connect(ssl) : SSL_accept(ssl);
    char byte = 'x';
    if (done == 1 && SSL_write(ssl, &byte, 1) == 1) encounter.leaked = SSL_read(ssl, &byte, 1) == 1;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
  });
  encounter.ours = run_ours(ours);
  { Channel gone = std::move(ours); }  // ends a stranger that still waits
  stranger.join();
  return encounter;
}

TEST_CASE("two ends with one key talk, and large messages come through whole") {
  Pair pair = make_pair(false);
  Channel a = channel_of(std::move(pair.ours), 1, TlsRole::kConnects);
  Channel b = channel_of(std::move(pair.theirs), 1, TlsRole::kAccepts);
  Outcome outcome = talk(a, b);
  CHECK(outcome.ours.ok());
  CHECK(outcome.theirs.ok());
  CHECK(a.authenticated());
  CHECK(b.authenticated());
  Bytes large(1 << 20, std::byte{7});
  std::thread sender([&] {
    a.queue(2, large);
    (void)a.flush(Deadline::after_ms(5'000));
  });
  auto frame = b.receive(Deadline::after_ms(5'000));
  sender.join();
  REQUIRE(frame.ok());
  CHECK(frame->payload == large);
}

TEST_CASE("two ends with different keys do not talk, and both say why") {
  Pair pair = make_pair(false);
  Channel a = channel_of(std::move(pair.ours), 1, TlsRole::kConnects);
  Channel b = channel_of(std::move(pair.theirs), 2, TlsRole::kAccepts);
  Outcome outcome = talk(a, b);
  CHECK_THAT(std::string(outcome.ours.message()), Catch::Contains("the secret of this process is not the job's"));
  CHECK_THAT(std::string(outcome.theirs.message()),
             Catch::Contains("the secret of the process that connected is not the job's"));
  CHECK(!a.authenticated());
  CHECK(!b.authenticated());
}

TEST_CASE("strangers do not get in as clients") {
  auto refused = [](const std::function<void(SSL_CTX*)>& prepare) {
    Encounter encounter = meet_stranger(TlsRole::kAccepts, prepare);
    return !encounter.leaked && !encounter.ours.ok();
  };
  CHECK(refused([](SSL_CTX*) {}));                     // openssl s_client as it is
  CHECK(refused([](SSL_CTX* ctx) { certify(ctx); }));  // with a certificate
  CHECK(refused([](SSL_CTX* ctx) { SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION); }));
  CHECK(refused([](SSL_CTX* ctx) {  // the key, but TLS 1.2
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_psk_client_callback(ctx, psk_client);
  }));
  CHECK(refused([](SSL_CTX* ctx) {  // the key, but another cipher
    SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_psk_client_callback(ctx, psk_client);
  }));
}

TEST_CASE("strangers do not pass as servers") {
  auto refused = [](const std::function<void(SSL_CTX*)>& prepare) {
    Encounter encounter = meet_stranger(TlsRole::kConnects, prepare);
    CHECK_THAT(std::string(encounter.ours.message()), Catch::Contains("the other end is not a tutti process"));
    return !encounter.leaked && !encounter.ours.ok();
  };
  CHECK(refused([](SSL_CTX*) {}));
  CHECK(refused([](SSL_CTX* ctx) { certify(ctx, false); }));
  CHECK(refused([](SSL_CTX* ctx) { certify(ctx); }));  // a server that accepts anyone: the trap of a default client
  CHECK(refused([](SSL_CTX* ctx) {
    certify(ctx);
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_psk_server_callback(ctx, psk_server);
  }));
}

TEST_CASE("a peer that closes does not raise SIGPIPE") {
  Pair pair = make_pair(false);
  Channel a = channel_of(std::move(pair.ours), 1, TlsRole::kConnects);
  pair.theirs.reset();
  a.queue(1, as_bytes("x"));
  CHECK(!a.flush(Deadline::after_ms(1'000)).ok());
}

TEST_CASE("without memory, whoever cannot go on says so, and what to do") {
  REQUIRE(kAllocatesHere);
  // In one thread, so that the allocations are counted in one order.
  auto greet = [] {
    Pair pair = make_pair(false);
    auto client = TlsContext::create(key_of(1))->make_stream(std::move(pair.ours), TlsRole::kConnects);
    if (!client.ok()) return client.status();
    auto server = TlsContext::create(key_of(1))->make_stream(std::move(pair.theirs), TlsRole::kAccepts);
    if (!server.ok()) return server.status();
    std::byte byte[1];
    for (int i = 0; !(*client)->authenticated() || !(*server)->authenticated(); ++i) {
      if (i == 1000) return error(Code::kInternal, "the handshake does not end");
      for (Stream* stream : {client->get(), server->get()}) {
        if (auto got = stream->read(byte); !got.ok()) return got.status();
      }
    }
    return Status();
  };
  REQUIRE(greet().ok());  // what OpenSSL makes once in a process
  long many = std::numeric_limits<long>::max();
  allocations_left = many;
  REQUIRE(greet().ok());
  long needed = many - allocations_left;
  REQUIRE(needed > 100);
  long failed = 0;
  for (long left = 0; left < needed; ++left) {
    allocations_left = left;
    Status status = greet();
    allocations_left = many;
    INFO(left << " of " << needed << " allocations: " << status.message());
    if (status.ok()) continue;
    ++failed;
    CHECK_THAT(std::string(status.message()), Catch::Contains("free memory"));
  }
  CHECK(failed > needed * 9 / 10);
}

}  // namespace
}  // namespace tutti::bootstrap
