// Addresses of sockets: what is behind the family depends on it (address_families(7), ip(7), ipv6(7),
// unix(7), netlink(7), packet(7)). Members have the names of C's structs.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>

#include "scalars.h"
#include "value_decoder.h"

namespace rtrace::decode {
namespace {

using proto::Type;

// What sockaddr_storage holds: no family needs more.
constexpr uint64_t kLargest = sizeof(sockaddr_storage);

const Type& family_type() {
  static const proto::TypeRef kType = proto::make_enumeration(
      proto::make_integer(2, false), {{"AF_UNSPEC", AF_UNSPEC}, {"AF_UNIX", AF_UNIX},
                                      {"AF_INET", AF_INET},     {"AF_AX25", AF_AX25},
                                      {"AF_IPX", AF_IPX},       {"AF_APPLETALK", AF_APPLETALK},
                                      {"AF_X25", AF_X25},       {"AF_INET6", AF_INET6},
                                      {"AF_KEY", AF_KEY},       {"AF_NETLINK", AF_NETLINK},
                                      {"AF_PACKET", AF_PACKET}, {"AF_RDS", AF_RDS},
                                      {"AF_PPPOX", AF_PPPOX},   {"AF_CAN", AF_CAN},
                                      {"AF_TIPC", AF_TIPC},     {"AF_BLUETOOTH", AF_BLUETOOTH},
                                      {"AF_IUCV", AF_IUCV},     {"AF_RXRPC", AF_RXRPC},
                                      {"AF_PHONET", AF_PHONET}, {"AF_IEEE802154", AF_IEEE802154},
                                      {"AF_ALG", AF_ALG},       {"AF_NFC", AF_NFC},
                                      {"AF_VSOCK", AF_VSOCK},   {"AF_QIPCRTR", AF_QIPCRTR},
                                      {"AF_XDP", AF_XDP}});
  return *kType;
}

// Takes one member after the other off the bytes; those that are not all there are unreadable.
class Members {
 public:
  Members(Value& value, std::span<const std::byte> bytes) : value_(value), bytes_(bytes) {}

  void number(std::string_view name, uint64_t size, std::endian order = std::endian::native) {
    const auto part = take(size);
    if (part.size() < size) return add(name, {});
    uint64_t raw = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t at = order == std::endian::big ? i : size - 1 - i;
      raw = raw << 8 | std::to_integer<uint64_t>(part[at]);
    }
    Value made;
    made.kind = Value::Kind::integer;
    made.size = static_cast<uint8_t>(size);
    made.raw = raw;
    add(name, std::move(made));
  }

  void host(std::string_view name, int family, uint64_t size) {
    const auto part = take(size);
    char text[INET6_ADDRSTRLEN] = {};
    if (part.size() < size || inet_ntop(family, part.data(), text, sizeof text) == nullptr)
      return add(name, {});
    add(name, string(text));
  }

  void rest(std::string_view name, uint64_t most) {
    const auto part = take(bytes_.size());
    Value made = string({reinterpret_cast<const char*>(part.data()), std::min(part.size(), most)});
    made.cut = part.size() > most;
    add(name, std::move(made));
  }

  // A path ends at a NUL; an abstract name begins with one, and is as long as the address (unix(7)).
  void path(std::string_view name, uint64_t most) {
    if (!bytes_.empty() && bytes_[0] != std::byte{0})
      bytes_ = bytes_.first(static_cast<size_t>(std::ranges::find(bytes_, std::byte{0}) - bytes_.begin()));
    if (!bytes_.empty()) rest(name, most);
  }

  void skip(uint64_t size) { (void)take(size); }
  bool at_end() const { return bytes_.empty(); }

 private:
  static Value string(std::string_view text) {
    Value made;
    made.kind = Value::Kind::string;
    made.bytes = text;
    return made;
  }

  std::span<const std::byte> take(uint64_t size) {
    const auto part = bytes_.first(std::min<uint64_t>(size, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

  void add(std::string_view name, Value made) {
    made.name = name;
    value_.members.push_back(std::move(made));
  }

  Value& value_;
  std::span<const std::byte> bytes_;
};

void add_members(Members members, uint64_t family, uint64_t longest_string) {
  switch (family) {
    case AF_INET:
      members.number("sin_port", 2, std::endian::big);
      members.host("sin_addr", AF_INET, 4);
      return;
    case AF_INET6:
      members.number("sin6_port", 2, std::endian::big);
      members.number("sin6_flowinfo", 4, std::endian::big);
      members.host("sin6_addr", AF_INET6, 16);
      members.number("sin6_scope_id", 4);
      return;
    case AF_UNIX:
      return members.path("sun_path", longest_string);
    case AF_NETLINK:
      members.skip(2);
      members.number("nl_pid", 4);
      members.number("nl_groups", 4);
      return;
    case AF_PACKET:
      members.number("sll_protocol", 2, std::endian::big);
      members.number("sll_ifindex", 4);
      return;
    case AF_VSOCK:
      members.skip(2);
      members.number("svm_port", 4);
      members.number("svm_cid", 4);
      return;
    default:
      if (!members.at_end()) members.rest("sa_data", longest_string);
  }
}

}  // namespace

Value ValueDecoder::socket_address(const Type& type, Place place) {
  const auto address = pointer_at(place);
  Value value;
  if (!address) return value;
  if (*address == 0) return address_value(0);
  value.raw = *address;
  const auto length = count_of(type.length);
  if (!length) return value;
  std::array<std::byte, kLargest> storage{};
  const auto bytes = load({{}, {*address}}, std::min(*length, kLargest), storage);
  constexpr uint64_t kFamily = sizeof(sa_family_t);
  if (bytes.size() < kFamily && *length >= kFamily) return value;
  value.raw = 0;
  value.kind = Value::Kind::structure;
  if (bytes.size() < kFamily) return value;
  const uint64_t family = extend(bytes, kFamily, false);
  value.members.push_back(integral_value(family_type(), family, proto::Lens::none));
  value.members.back().name = "sa_family";
  add_members(Members(value, bytes.subspan(kFamily)), family, limits_.string);
  return value;
}

}  // namespace rtrace::decode
