#include "bootstrap/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "base/memory.h"

namespace tutti::bootstrap {
namespace {

constexpr unsigned char kIdentity[] = {'t', 'u', 't', 't', 'i'};
constexpr unsigned char kAes256GcmSha384[] = {0x13, 0x02};  // RFC 8446, B.4

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using CtxPtr = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Deleter<SSL_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Deleter<SSL_SESSION_free>>;
using BioMethodPtr = std::unique_ptr<BIO_METHOD, Deleter<BIO_meth_free>>;

// OpenSSL's own socket BIO writes with write(2), which raises SIGPIPE; this one sends with MSG_NOSIGNAL.
int fd_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

bool is_not_now(int code) {
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR || code == ENOTCONN || code == EINPROGRESS;
}

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t put = ::send(fd_of(bio), data, static_cast<size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put < 0 && is_not_now(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(put);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t got = ::recv(fd_of(bio), data, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got < 0 && is_not_now(errno)) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long bio_ctrl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
  return 0;
}

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

// A TLS 1.3 external pre-shared key is handed to OpenSSL as a session that never was
// (SSL_set_psk_use_session_callback(3)).
SessionPtr session_of(SSL* ssl, const Secret& key) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes256GcmSha384);
  SessionPtr session(SSL_SESSION_new());
  if (cipher == nullptr || session == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session;
}

const Secret& key_of(SSL* ssl) { return *static_cast<const Secret*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))); }

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* identity_size, SSL_SESSION** session) {
  *session = session_of(ssl, key_of(ssl)).release();
  *identity = kIdentity;
  *identity_size = sizeof(kIdentity);
  return *session != nullptr;
}

int find_session(SSL* ssl, const unsigned char* identity, size_t identity_size, SSL_SESSION** session) {
  *session = nullptr;  // an unknown identity: OpenSSL goes on without, and fails for want of a certificate
  if (identity_size != sizeof(kIdentity) || std::memcmp(identity, kIdentity, identity_size) != 0) return 1;
  *session = session_of(ssl, key_of(ssl)).release();
  return *session != nullptr;
}

// Whether OpenSSL's errors of this thread are of its own work, not of the peer's messages: nearly always want of
// memory, of which it often names a consequence only. Takes them off its queue.
bool take_errors_of_its_own() {
  bool found = false;
  while (unsigned long code = ERR_get_error()) {
    // What a certificate leaves that cannot be decoded.
    int reason = ERR_GET_REASON(code);
    bool is_of_peer = reason == ERR_R_NESTED_ASN1_ERROR || reason == ERR_R_ASN1_LIB;
    found |= ERR_COMMON_ERROR(code) && !is_of_peer;
  }
  return found;
}

Status own_error(std::string_view what) {
  return error(Code::kSystem, "OpenSSL cannot {}, for want of memory it seems; {}", what, kMemoryRemedy);
}

// Of this thread's newest error.
std::string reason_of_openssl() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown";
}

Status no_context() {
  std::string reason = reason_of_openssl();
  if (take_errors_of_its_own()) return own_error("make a TLS context");
  return error(Code::kSystem,
               "this OpenSSL has no TLS 1.3 with AES-256-GCM ({}): use OpenSSL 3 with its default provider", reason);
}

// Takes OpenSSL's errors of this thread off its queue.
Status handshake_error(bool connects) {
  unsigned long code = ERR_peek_last_error();
  std::string reason = code == 0 ? "connection closed" : reason_of_openssl();
  int number = ERR_GET_REASON(code);
  if (take_errors_of_its_own()) return own_error("make a TLS connection");
  bool differs = connects
                     ? number == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER || number == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
                           number == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE
                     : number == SSL_R_BINDER_DOES_NOT_VERIFY;
  if (differs) {
    return error(Code::kInvalidUsage, "the secret of {} is not the job's: check TUTTI_SECRET_FILE",
                 connects ? "this process" : "the process that connected");
  }
  return error(Code::kRemote, "the other end is not a tutti process of this job ({})", reason);
}

// What a connection uses as long as it lives. Owners: the context and every stream that it made.
struct Shared {
  ~Shared() { OPENSSL_cleanse(key.data(), key.size()); }
  Secret key;
  BioMethodPtr method;
};

class TlsStream final : public Stream {
 public:
  TlsStream(Fd fd, SslPtr ssl, bool connects, std::shared_ptr<Shared> shared)
      : fd_(std::move(fd)), shared_(std::move(shared)), ssl_(std::move(ssl)), connects_(connects) {}
  ~TlsStream() override { ERR_clear_error(); }

  Result<Moved> read(std::span<std::byte> into) override {
    TUTTI_TRY(shake_hands());
    if (!proven_) return Moved{};
    size_t got = 0;
    ERR_clear_error();
    int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    return finish(done, got, "read");
  }

  Result<Moved> write(ByteView from) override {
    TUTTI_TRY(shake_hands());
    if (!proven_) return Moved{};
    size_t put = 0;
    ERR_clear_error();
    int done = SSL_write_ex(ssl_.get(), from.data(), from.size(), &put);
    return finish(done, put, "write");
  }

  void close_writing() override {
    if (proven_) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ::shutdown(fd_.get(), SHUT_WR);
  }

  int fd() const override { return fd_.get(); }
  bool wants_write() const override { return wants_write_; }
  bool authenticated() const override { return proven_; }

 private:
  Status shake_hands() {
    if (proven_) return {};
    ERR_clear_error();
    int done = SSL_do_handshake(ssl_.get());
    int why = SSL_get_error(ssl_.get(), done);
    wants_write_ = done != 1 && why == SSL_ERROR_WANT_WRITE;
    if (done != 1 && (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)) return {};
    if (done != 1 && why == SSL_ERROR_SYSCALL && errno != 0) return system_error(errno, "the connection failed");
    if (done != 1) return handshake_error(connects_);
    // The one thing that proves the peer's knowledge of the key: without it a stranger with a certificate would do.
    if (SSL_session_reused(ssl_.get()) != 1 || SSL_version(ssl_.get()) != TLS1_3_VERSION)
      return handshake_error(connects_);
    proven_ = true;
    return {};
  }

  Result<Moved> finish(int done, size_t bytes, const char* what) {
    wants_write_ = false;
    if (done == 1) return Moved{bytes, false};
    int why = SSL_get_error(ssl_.get(), done);
    if (why == SSL_ERROR_WANT_READ) return Moved{};
    if (why == SSL_ERROR_WANT_WRITE) {
      wants_write_ = true;
      return Moved{};
    }
    if (why == SSL_ERROR_ZERO_RETURN) return Moved{0, true};
    if (why == SSL_ERROR_SYSCALL && (errno == ECONNRESET || errno == EPIPE)) return Moved{0, true};
    if (why == SSL_ERROR_SYSCALL) return system_error(errno, fmt::format("cannot {} on a TLS connection", what));
    std::string reason = reason_of_openssl();
    if (take_errors_of_its_own()) return own_error(fmt::format("{} on a TLS connection", what));
    return error(Code::kRemote, "a TLS connection broke ({})", reason);
  }

  Fd fd_;
  std::shared_ptr<Shared> shared_;
  SslPtr ssl_;
  const bool connects_;
  bool proven_ = false;
  bool wants_write_ = false;
};

class PskContext final : public TlsContext {
 public:
  explicit PskContext(const Secret& key) : shared_(std::make_shared<Shared>()) { shared_->key = key; }

  // Waits for the first connection, unless prepare() asks for it: ranks of one host have none.
  Status open() {
    ERR_clear_error();
    BioMethodPtr& method = shared_->method;
    method.reset(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tutti socket"));
    CtxPtr made(SSL_CTX_new(TLS_method()));
    if (method == nullptr || made == nullptr) return no_context();
    BIO_meth_set_write(method.get(), bio_write);
    BIO_meth_set_read(method.get(), bio_read);
    BIO_meth_set_ctrl(method.get(), bio_ctrl);
    BIO_meth_set_create(method.get(), bio_create);
    SSL_CTX* ctx = made.get();
    bool set = SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(ctx, "TLS_AES_256_GCM_SHA384") == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1;
    if (!set) return no_context();
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);  // the trust store is empty
    SSL_CTX_set_app_data(ctx, &shared_->key);
    SSL_CTX_set_psk_use_session_callback(ctx, use_session);
    SSL_CTX_set_psk_find_session_callback(ctx, find_session);
    ctx_ = std::move(made);
    return {};
  }

  Status prepare() override { return ctx_ == nullptr ? open() : Status(); }

  Result<std::unique_ptr<Stream>> make_stream(Fd fd, TlsRole role) override {
    TUTTI_TRY(prepare());
    SslPtr ssl(SSL_new(ctx_.get()));
    BIO* bio = BIO_new(shared_->method.get());
    if (ssl == nullptr || bio == nullptr) {
      BIO_free(bio);
      ERR_clear_error();
      return own_error("make a TLS connection");
    }
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())));
    SSL_set_bio(ssl.get(), bio, bio);
    bool connects = role == TlsRole::kConnects;
    if (connects) {
      SSL_set_connect_state(ssl.get());
    } else {
      // A server that verifies peers refuses every session without an id context, pre-shared ones too; a client must
      // have none.
      SSL_set_session_id_context(ssl.get(), kIdentity, sizeof(kIdentity));
      SSL_set_accept_state(ssl.get());
    }
    return std::unique_ptr<Stream>(std::make_unique<TlsStream>(std::move(fd), std::move(ssl), connects, shared_));
  }

 private:
  std::shared_ptr<Shared> shared_;
  CtxPtr ctx_;  // null before the first stream
};

}  // namespace

std::unique_ptr<TlsContext> TlsContext::create(const Secret& key) {
  return std::make_unique<PskContext>(key);
}

}  // namespace tutti::bootstrap
