#include "debug_data.h"

#include <lzma.h>

#include <string_view>

#include "rtrace/base/error.h"

namespace rtrace::elf {
namespace {

// The symbols of the largest programs take a few MiB; what a hostile stream asks for ends here.
constexpr size_t kMaxSize = size_t{64} << 20;
constexpr uint64_t kMemoryLimit = uint64_t{128} << 20;

// Linked statically, what liblzma does before main() is left until it is used: it asks for the processor's
// features, which a virtual machine makes slow. first_use.ld names the place; elsewhere there is none.
using Initializer = void (*)();
extern "C" const Initializer rtrace_lzma_initializers[] __attribute__((weak, visibility("hidden")));
extern "C" const Initializer rtrace_lzma_initializers_end[] __attribute__((weak, visibility("hidden")));

void initialize_lzma() {
  static const bool kDone = [] {
    for (const Initializer* at = rtrace_lzma_initializers; at != rtrace_lzma_initializers_end; ++at) (*at)();
    return true;
  }();
  (void)kDone;
}

class Decoder {
 public:
  explicit Decoder(Bytes packed) {
    initialize_lzma();
    if (lzma_stream_decoder(&stream_, kMemoryLimit, LZMA_CONCATENATED) != LZMA_OK)
      throw Error("liblzma has no memory");
    stream_.next_in = reinterpret_cast<const uint8_t*>(packed.data());
    stream_.avail_in = packed.size();
  }
  ~Decoder() { lzma_end(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // How many bytes there were.
  size_t run(std::span<std::byte> out) {
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret answer = lzma_code(&stream_, LZMA_FINISH);
    if (answer == LZMA_OK && stream_.avail_out == 0)
      throw Error::make("it holds more than {} bytes", out.size());
    if (answer != LZMA_STREAM_END)
      throw Error::make("not a complete xz stream (lzma_ret {})", static_cast<int>(answer));
    return out.size() - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<Image> read_debug_data(const Image& object) {
  const auto section = object.section(".gnu_debugdata");
  if (!section) return nullptr;
  try {
    // Pages of it cost nothing until they are written to.
    Mapping room = Mapping::shared(kMaxSize);
    const size_t size = Decoder(object.contents(*section)).run({room.data(), room.size()});
    Mapping exact = Mapping::shared(size == 0 ? 1 : size);
    std::copy_n(room.data(), size, exact.data());
    return std::make_unique<Image>(std::move(exact));
  } catch (const Error& error) {
    object.warn(fmt::format(".gnu_debugdata: {}", error.what()));
    return nullptr;
  }
}

}  // namespace rtrace::elf
