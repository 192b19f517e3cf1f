#include "rtrace/session/run.h"

int main(int argc, char** argv) {
  return rtrace::session::run(argc, argv);
}
