/* descriptors FOLDER: opens and uses files, pipes and sockets by functions of its own. Exit status 0 when all
 * works. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SEEN __attribute__((noinline, noclone))

SEEN int opens(const char* path) {
  return open(path, O_RDWR | O_CREAT, 0600);
}
SEEN int uses(int fd) {
  return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}
SEEN int closes(int fd) {
  return close(fd);
}
SEEN int pipes(int fds[2]) {
  return pipe(fds);
}
SEEN int gives(int fd) {
  return fd;
}

static int listening(int domain, const void* address, socklen_t size) {
  int fd = socket(domain, SOCK_STREAM, 0);
  return fd >= 0 && bind(fd, address, size) == 0 && listen(fd, 1) == 0 ? fd : -1;
}

/* Says the ports first: what rtrace prints must hold them. */
static int connected(int domain, const void* address, socklen_t size) {
  struct sockaddr_storage bound;
  socklen_t bound_size = sizeof bound;
  int server = listening(domain, address, size);
  int client = socket(domain, SOCK_STREAM, 0);
  if (server < 0 || getsockname(server, (struct sockaddr*)&bound, &bound_size) != 0) return 0;
  if (connect(client, (struct sockaddr*)&bound, bound_size) != 0) return 0;
  int accepted = accept(server, NULL, NULL);
  if (domain == AF_INET) {
    struct sockaddr_in own;
    socklen_t own_size = sizeof own;
    if (getsockname(client, (struct sockaddr*)&own, &own_size) != 0) return 0;
    printf("ports %d %d\n", ntohs(((struct sockaddr_in*)&bound)->sin_port), ntohs(own.sin_port));
  }
  int good = uses(server) == 0 && uses(client) == 0 && gives(accepted) == accepted;
  return good && close(server) == 0 && close(client) == 0 && close(accepted) == 0;
}

int main(int argc, char** argv) {
  char path[100];
  if (argc < 2 || strlen(argv[1]) > 60) return 2;
  sprintf(path, "%s/a<b>\n", argv[1]);
  int fd = opens(path);
  int good = fd >= 0 && uses(fd) == 0;
  good &= unlink(path) == 0 && uses(fd) == 0;
  good &= closes(fd) == 0 && uses(fd) == -1 && uses(-1) == -1;
  good &= opens("/nonexistent/x") == -1;
  int fds[2] = {-1, -1};
  good &= pipes(fds) == 0 && closes(fds[0]) == 0 && closes(fds[1]) == 0;
  int epoll = epoll_create1(0);
  good &= uses(epoll) == 0 && close(epoll) == 0;
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  good &= connected(AF_INET, &any, sizeof any);
  struct sockaddr_un named = {.sun_family = AF_UNIX};
  sprintf(named.sun_path, "%s/socket", argv[1]);
  good &= connected(AF_UNIX, &named, sizeof named) && unlink(named.sun_path) == 0;
  return good ? 0 : 1;
}
