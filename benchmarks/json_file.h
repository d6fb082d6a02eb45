// The file that --json names.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace tutti::bench {

class JsonFile {
 public:
  // Opened before anything runs: a wrong path is to be said at once. Throws std::runtime_error with one sentence, as
  // write() does.
  explicit JsonFile(const std::string& path);
  void write(const std::string& text);

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

}  // namespace tutti::bench
