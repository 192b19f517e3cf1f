// flow_throws WAY COUNT: exceptions through counted calls.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "counted.h"

namespace {

thread_local int destroyed = 0;
struct Guard {
  ~Guard() {
    visit(1);
    ++destroyed;
  }
};

int throw_it(void* value) {
  const Guard guard;
  throw std::runtime_error(std::to_string(reinterpret_cast<long>(value)));
}

int through_guard(void* value) {
  const Guard guard;
  return through(throw_it, value);
}

int through_tail(void* value) {
  return counted_tail_work(through_guard, value);
}

int rethrow(void* value) {
  try {
    return through(through_tail, value);
  } catch (const std::runtime_error&) {
    visit(2);
    throw;
  }
}

int translate(void* value) {
  try {
    return through(rethrow, value);
  } catch (const std::runtime_error& error) {
    throw std::logic_error(error.what());
  }
}

// One exception: thrown under six counted calls, rethrown, replaced by another, and caught above all of them.
bool caught(int i) {
  const int before = destroyed;
  try {
    through(translate, reinterpret_cast<void*>(static_cast<long>(i)));
  } catch (const std::logic_error& error) {
    return error.what() == std::to_string(i) && destroyed == before + 2;
  }
  return false;
}

int throws(int count) {
  for (int i = 0; i < count; ++i)
    if (!caught(i)) return 1;
  return 0;
}

// The same in four threads at once, the last one of each thread handed to the first.
int threads(int count) {
  constexpr int kThreads = 4;
  bool good[kThreads] = {};
  std::exception_ptr last[kThreads];
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t)
    all.emplace_back([&, t] {
      good[t] = throws(count) == 0;
      try {
        through(rethrow, nullptr);
      } catch (...) {
        last[t] = std::current_exception();
      }
    });
  for (auto& thread : all) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    try {
      through([](void* error) -> int { std::rethrow_exception(*static_cast<std::exception_ptr*>(error)); },
              &last[t]);
      return 2;
    } catch (const std::runtime_error& error) {
      if (!good[t] || std::string(error.what()) != "0") return 3;
    }
  }
  return 0;
}

// Nobody catches it: std::terminate, SIGABRT.
int uncaught(int) {
  return through(throw_it, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const counted_way ways[] = {
      {"throws", throws}, {"threads", threads}, {"uncaught", uncaught}, {nullptr, nullptr}};
  return counted_main(argc, argv, ways);
}
