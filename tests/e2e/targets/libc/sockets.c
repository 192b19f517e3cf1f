// sys/socket.h, arpa/inet.h, netdb.h, poll.h, sys/select.h, sys/epoll.h, netinet/ether.h
// Each expected line stands behind its call.
// clang-format off
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char buf[64];

static void pairs(void) {
  int sv[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, sv);  //= socketpair(AF_UNIX, SOCK_STREAM, 0, [ 3, 4 ]) = 0
  send(3, "ping", 4, MSG_NOSIGNAL);    //= send(3, "ping", 4, MSG_NOSIGNAL) = 4
  recv(4, buf, 16, MSG_PEEK);          //= recv(4, "ping", 16, MSG_PEEK) = 4
  struct pollfd wait = {4, POLLIN, 0};
  poll(&wait, 1, 0);                   //= poll([ { 4, POLLIN, 0 } ] -> [ { 4, POLLIN, POLLIN } ], 1, 0) = 1
  fd_set set;
  memset(&set, 0, sizeof set);         //= memset(ADDR, 0, 128) = ADDR
  FD_SET(4, &set);
  struct timeval now = {0, 0};
  select(5, &set, NULL, NULL, &now);   //= select(5, <4>, nil, nil, { 0, 0 }) = 1
  int epoll = epoll_create1(EPOLL_CLOEXEC);  //= epoll_create1(EPOLL_CLOEXEC) = 5
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = 4}, events[4];
  epoll_ctl(epoll, EPOLL_CTL_ADD, 4, &event);  //= epoll_ctl(5, EPOLL_CTL_ADD, 4, { EPOLLIN|EPOLLET, [ 0x4, 0 ] }) = 0
  event.data.u64 = 4;
  epoll_wait(epoll, events, 4, 0);     //= epoll_wait(5, [ { EPOLLIN, [ 0x4, {any} ] } ], 4, 0) = 1
  recvfrom(4, buf, 16, 0, NULL, NULL); //= recvfrom(4, "ping", 16, 0, nil, nil) = 4
  sendto(3, "x", 1, 0, NULL, 0);       //= sendto(3, "x", 1, 0, nil, 0) = 1
  struct iovec part = {"abc", 3}, room = {buf, 16};
  struct msghdr out = {.msg_iov = &part, .msg_iovlen = 1}, in = {.msg_iov = &room, .msg_iovlen = 1};
  sendmsg(3, &out, 0);                 //= sendmsg(3, { nil, 0, [ { "abc", 3 } ], 1, nil, 0, 0 }, 0) = 3
  recvmsg(4, &in, 0);                  //= recvmsg(4, { nil, 0, [ { "xabc", 16 } ], 1, nil, 0, 0 }, 0) = 4
  shutdown(3, SHUT_WR);                //= shutdown(3, SHUT_WR) = 0
  recv(4, buf, 16, MSG_DONTWAIT);      //= recv(4, "", 16, MSG_DONTWAIT) = 0
}

static void connections(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "s"}, from;
  socklen_t size = sizeof from;
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);  //= socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0) = 6
  int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);  //= setsockopt(6, SOL_SOCKET, SO_PASSCRED, 1, 4) = 0
  bind(listener, (struct sockaddr *)&name, sizeof name);  //= bind(6, { AF_UNIX, "s" }, 110) = 0
  listen(listener, 8);                 //= listen(6, 8) = 0
  int client = socket(AF_UNIX, SOCK_STREAM, 0);  //= socket(AF_UNIX, SOCK_STREAM, 0) = 7
  connect(client, (struct sockaddr *)&name, sizeof name);  //= connect(7, { AF_UNIX, "s" }, 110) = 0
  accept(listener, (struct sockaddr *)&from, &size);  //= accept(6, { AF_UNIX }, 110 -> 2) = 8
  accept4(client, NULL, NULL, SOCK_NONBLOCK);  //= accept4(7, nil, nil, SOCK_NONBLOCK) = -1 EINVAL (Invalid argument)
  size = sizeof from;
  getsockname(listener, (struct sockaddr *)&from, &size);  //= getsockname(6, { AF_UNIX, "s" }, 110 -> 4) = 0
  size = sizeof from;
  getpeername(8, (struct sockaddr *)&from, &size);  //= getpeername(8, { AF_UNIX }, 110 -> 2) = 0
  size = sizeof on;
  getsockopt(8, SOL_SOCKET, SO_TYPE, &on, &size);  //= getsockopt(8, SOL_SOCKET, SO_TYPE, 1, 4) = 0
}

static void addresses(void) {
  struct in_addr in = {htonl(0x7f000001)};  //= htonl(ADDR) = ADDR
  uint16_t port = htons(80);           //= htons(0x50) = 0x5000
  port = ntohs(0x5000);                //= ntohs(0x5000) = 0x50
  uint32_t host = ntohl(1);            //= ntohl(0x1) = ADDR
  inet_addr("127.0.0.1");              //= inet_addr("127.0.0.1") = ADDR
  inet_aton("127.0.0.1", &in);         //= inet_aton("127.0.0.1", { [ 127, 0, 0, 1 ] }) = true
  inet_ntoa(in);                       //= inet_ntoa({ [ 127, 0, 0, 1 ] }) = "127.0.0.1"
  inet_ntop(AF_INET, &in, buf, sizeof buf);  //= inet_ntop(AF_INET, ADDR, ADDR, 64) = "127.0.0.1"
  inet_pton(AF_INET, "127.0.0.1", &in);  //= inet_pton(AF_INET, "127.0.0.1", ADDR) = 1
  ether_aton("1:2:3:4:5:6");           //= ether_aton("1:2:3:4:5:6") = { [ 0x1, 0x2, 0x3, 0x4... ] }
  hstrerror(HOST_NOT_FOUND);           //= hstrerror(HOST_NOT_FOUND) = "Unknown host"
  gai_strerror(EAI_NONAME);            //= gai_strerror(EAI_NONAME) = "Name or service not known"
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  getaddrinfo("127.0.0.1", "80", &hints, &found);  //= getaddrinfo("127.0.0.1", "80", { AI_NUMERICHOST|AI_NUMERICSERV, AF_INET, SOCK_STREAM, 0, 0, nil }, { AI_NUMERICHOST|AI_NUMERICSERV, AF_INET, SOCK_STREAM, 6, 16, { AF_INET, 80, "127.0.0.1" } }) = 0
  char service[16];
  getnameinfo(found->ai_addr, found->ai_addrlen, buf, 64, service, 16, NI_NUMERICHOST | NI_NUMERICSERV);  //= getnameinfo({ AF_INET, 80, "127.0.0.1" }, 16, "127.0.0.1", 64, "80", 16, NI_NUMERICHOST|NI_NUMERICSERV) = 0
  freeaddrinfo(found);                 //= freeaddrinfo(ADDR) = <void>
}

int main(void) {
  pairs();
  connections();
  addresses();
  return 0;
}
