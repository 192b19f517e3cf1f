// What lies behind a file descriptor of a process.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <string>

namespace rtrace::tracee {

// "/tmp/x", "pipe:[123]", "anon_inode:[eventpoll]" as proc(5) has it, sockets as describe() does; empty where
// there is no such descriptor. `tid` is a task of the process, and its descriptors count: it may have a table
// of its own. The bytes are the program's choice.
std::string descriptor_name(pid_t pid, pid_t tid, int fd);

// A socket, as far as it is known.
struct Socket {
  int domain = 0, protocol = 0;
  ino_t inode = 0;
  sockaddr_storage local{}, peer{};
  socklen_t local_size = 0, peer_size = 0;  // 0: none
};
// "TCP:[127.0.0.1:5->127.0.0.1:6]", "UDPv6:[[::1]:53]", "UNIX:[/run/x]", "UNIX:[@abstract]",
// "NETLINK:[inode]"; "socket:[inode]" for other kinds.
std::string describe(const Socket& socket);

}  // namespace rtrace::tracee
