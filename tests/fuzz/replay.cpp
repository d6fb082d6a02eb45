// The main() of a fuzz target that is built without libFuzzer: runs every file of the given corpus folders (or files),
// and a fixed number of changed copies of each, always the same ones. It finds less than fuzzing does, but on every
// machine and in every test run.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kCopiesOfEach = 2000;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<Bytes> read_corpus(int argc, char** argv) {
  std::vector<Bytes> corpus = {Bytes()};
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      corpus.push_back(read_file(argv[i]));
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) corpus.push_back(read_file(entry.path()));
  }
  return corpus;
}

void run(const Bytes& input) { LLVMFuzzerTestOneInput(input.data(), input.size()); }

// One small damage: a byte changed, lost, doubled or inserted, or the rest cut off.
void damage(Bytes& input, std::mt19937& random) {
  auto byte = static_cast<uint8_t>(random());
  if (input.empty()) {
    input.push_back(byte);
    return;
  }
  size_t at = random() % input.size();
  auto place = input.begin() + static_cast<ptrdiff_t>(at);
  switch (random() % 5) {
    case 0: *place = byte; break;
    case 1: *place ^= static_cast<uint8_t>(1 << (byte % 8)); break;
    case 2: input.erase(place); break;
    case 3: input.insert(place, byte); break;
    default: input.resize(at); break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);
  auto corpus = read_corpus(argc, argv);
  for (const Bytes& original : corpus) {
    run(original);
    for (int i = 0; i < kCopiesOfEach; ++i) {
      Bytes copy = original;
      for (uint32_t damages = 1 + random() % 4; damages > 0; --damages) damage(copy, random);
      run(copy);
    }
  }
  std::printf("%zu inputs and %d changed copies of each\n", corpus.size(), kCopiesOfEach);
}
