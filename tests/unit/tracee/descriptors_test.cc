#include "rtrace/tracee/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "rtrace/base/unique_fd.h"

namespace rtrace::tracee::descriptors_test {
namespace {

template <typename T>
void put(const T& specific, sockaddr_storage& address, socklen_t& size) {
  std::memcpy(&address, &specific, sizeof specific);
  size = sizeof specific;
}

sockaddr_in v4(const char* address, uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  inet_pton(AF_INET, address, &made.sin_addr);
  return made;
}

sockaddr_in6 v6(const char* address, uint16_t port) {
  sockaddr_in6 made{};
  made.sin6_family = AF_INET6;
  made.sin6_port = htons(port);
  inet_pton(AF_INET6, address, &made.sin6_addr);
  return made;
}

TEST(Describe, InternetSockets) {
  Socket socket{AF_INET, IPPROTO_TCP, 77, {}, {}, 0, 0};
  EXPECT_EQ(describe(socket), "TCP:[77]");
  put(v4("0.0.0.0", 0), socket.local, socket.local_size);
  EXPECT_EQ(describe(socket), "TCP:[77]") << "not bound yet";
  put(v4("127.0.0.1", 80), socket.local, socket.local_size);
  EXPECT_EQ(describe(socket), "TCP:[127.0.0.1:80]");
  put(v4("10.1.2.3", 40000), socket.peer, socket.peer_size);
  EXPECT_EQ(describe(socket), "TCP:[127.0.0.1:80->10.1.2.3:40000]");
  socket.domain = AF_INET6;
  socket.protocol = IPPROTO_UDP;
  put(v6("::1", 53), socket.local, socket.local_size);
  put(v6("fe80::1", 5), socket.peer, socket.peer_size);
  EXPECT_EQ(describe(socket), "UDPv6:[[::1]:53->[fe80::1]:5]");
  socket.local_size = 3;
  EXPECT_EQ(describe(socket), "UDPv6:[77->[fe80::1]:5]") << "an address cut short";
}

TEST(Describe, UnixSockets) {
  Socket socket{AF_UNIX, 0, 77, {}, {}, 0, 0};
  EXPECT_EQ(describe(socket), "UNIX:[77]");
  sockaddr_un path{AF_UNIX, "/run/x"};
  put(path, socket.peer, socket.peer_size);
  EXPECT_EQ(describe(socket), "UNIX:[77->/run/x]");
  std::memcpy(path.sun_path, "\0abstract", 9);
  put(path, socket.local, socket.local_size);
  socket.local_size = offsetof(sockaddr_un, sun_path) + 9;
  EXPECT_EQ(describe(socket), "UNIX:[@abstract->/run/x]");
}

TEST(Describe, OthersByTheirNumber) {
  EXPECT_EQ(describe({AF_NETLINK, 0, 77, {}, {}, 0, 0}), "NETLINK:[77]");
  EXPECT_EQ(describe({AF_PACKET, 0, 77, {}, {}, 0, 0}), "socket:[77]");
  EXPECT_EQ(describe({AF_INET, 250, 77, {}, {}, 0, 0}), "socket:[77]");
}

std::string name_of(int fd) {
  return descriptor_name(getpid(), gettid(), fd);
}

TEST(DescriptorName, OfThisProcessesOwn) {
  const UniqueFd null(open("/dev/null", O_RDONLY));
  EXPECT_EQ(name_of(null.get()), "/dev/null");
  const UniqueFd event(eventfd(0, 0));
  EXPECT_EQ(name_of(event.get()), "anon_inode:[eventfd]");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  EXPECT_TRUE(name_of(reader.get()).starts_with("pipe:["));
  EXPECT_EQ(name_of(-1), "");
  EXPECT_EQ(name_of(1'000'000), "");
}

TEST(DescriptorName, OfSocketsThatAreConnected) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0)), client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = v4("127.0.0.1", 0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), generic, &size), 0);
  ASSERT_EQ(connect(client.get(), generic, size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_EQ(name_of(listener.get()), fmt::format("TCP:[127.0.0.1:{}]", port));
  ASSERT_EQ(getsockname(client.get(), generic, &size), 0);
  EXPECT_EQ(name_of(client.get()),
            fmt::format("TCP:[127.0.0.1:{}->127.0.0.1:{}]", ntohs(address.sin_port), port));
}

}  // namespace
}  // namespace rtrace::tracee::descriptors_test
