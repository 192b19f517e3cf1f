#include "rtrace/tracee/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>

#include "rtrace/base/unique_fd.h"

namespace rtrace::tracee {
namespace {

constexpr std::string_view kSocket = "socket:[";

template <typename T>
std::optional<T> as(const sockaddr_storage& address, socklen_t size) {
  T specific{};
  if (size < sizeof specific) return std::nullopt;
  std::memcpy(&specific, &address, sizeof specific);
  return specific;
}

// Empty where there is no address, or none yet (port 0).
std::string endpoint(const sockaddr_storage& address, socklen_t size) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto v4 = as<sockaddr_in>(address, size);
    if (!v4 || v4->sin_port == 0) return {};
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(v4->sin_port));
  }
  const auto v6 = as<sockaddr_in6>(address, size);
  if (!v6 || v6->sin6_port == 0) return {};
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  return fmt::format("[{}]:{}", text, ntohs(v6->sin6_port));
}

// unix(7): a path, which may lack its NUL; an abstract name behind a NUL; or nothing.
std::string unix_name(const sockaddr_storage& address, socklen_t size) {
  constexpr size_t kPath = offsetof(sockaddr_un, sun_path);
  if (size <= kPath || size > sizeof(sockaddr_un)) return {};
  std::string name(reinterpret_cast<const char*>(&address) + kPath, size - kPath);
  if (name[0] == '\0') return "@" + name.substr(1);
  return name.c_str();
}

// Between a name of its own and that of its peer: an arrow. Its number, where it has no name.
std::string between(const std::string& local, const std::string& peer, ino_t inode) {
  const std::string own = local.empty() ? fmt::format("{}", inode) : local;
  return peer.empty() ? own : own + "->" + peer;
}

const char* protocol_name(int protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return "TCP";
    case IPPROTO_UDP:
      return "UDP";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
      return "ICMP";
    case IPPROTO_SCTP:
      return "SCTP";
    case IPPROTO_RAW:
      return "RAW";
    default:
      return nullptr;
  }
}

int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// Asks the socket itself, through a descriptor of ours for the time of the questions (pidfd_getfd(2),
// Linux 5.6): that works in every network namespace, and does not search the kernel's tables. nullopt where
// the kernel does not allow it, or where it is not the socket of that number: a task with a table of its own.
std::optional<Socket> ask(pid_t pid, int fd, ino_t inode) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return std::nullopt;
  const UniqueFd ours(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
  struct stat status {};
  if (!ours || fstat(ours.get(), &status) != 0 || status.st_ino != inode) return std::nullopt;
  Socket socket;
  socket.inode = inode;
  socket.domain = option(ours.get(), SO_DOMAIN);
  socket.protocol = option(ours.get(), SO_PROTOCOL);
  socket.local_size = socket.peer_size = sizeof(sockaddr_storage);
  if (getsockname(ours.get(), reinterpret_cast<sockaddr*>(&socket.local), &socket.local_size) != 0)
    socket.local_size = 0;
  if (getpeername(ours.get(), reinterpret_cast<sockaddr*>(&socket.peer), &socket.peer_size) != 0)
    socket.peer_size = 0;
  return socket;
}

}  // namespace

std::string describe(const Socket& socket) {
  switch (socket.domain) {
    case AF_INET:
    case AF_INET6: {
      const char* protocol = protocol_name(socket.protocol);
      if (protocol == nullptr) break;
      return fmt::format("{}{}:[{}]", protocol, socket.domain == AF_INET6 ? "v6" : "",
                         between(endpoint(socket.local, socket.local_size),
                                 endpoint(socket.peer, socket.peer_size), socket.inode));
    }
    case AF_UNIX:
      return fmt::format("UNIX:[{}]", between(unix_name(socket.local, socket.local_size),
                                              unix_name(socket.peer, socket.peer_size), socket.inode));
    case AF_NETLINK:
      return fmt::format("NETLINK:[{}]", socket.inode);
    default:
      break;
  }
  return fmt::format("{}{}]", kSocket, socket.inode);
}

std::string descriptor_name(pid_t pid, pid_t tid, int fd) {
  if (fd < 0 && fd != AT_FDCWD) return {};
  char link[PATH_MAX];
  const std::string place =
      fd == AT_FDCWD ? fmt::format("/proc/{}/cwd", tid) : fmt::format("/proc/{}/fd/{}", tid, fd);
  const ssize_t size = readlink(place.c_str(), link, sizeof link);
  if (size <= 0) return {};
  std::string name(link, static_cast<size_t>(size));
  if (!name.starts_with(kSocket)) return name;
  const auto socket = ask(pid, fd, std::strtoul(name.c_str() + kSocket.size(), nullptr, 10));
  return socket ? describe(*socket) : name;
}

}  // namespace rtrace::tracee
