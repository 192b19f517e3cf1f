// Reads of memory that the tracee writes meanwhile.
#pragma once

#include <atomic>

namespace rtrace::mech {

// What was written before the tracee wrote this is seen after it.
template <typename T>
T load(const T& value) {
  return std::atomic_ref<T>(const_cast<T&>(value)).load(std::memory_order_acquire);
}

}  // namespace rtrace::mech
