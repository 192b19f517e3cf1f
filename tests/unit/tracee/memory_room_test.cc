#include "rtrace/tracee/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace rtrace::tracee::memory_room_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MemoryRoom, TheGroupsAreThatOfTheMemoryControllerAndThoseAboveIt) {
  EXPECT_THAT(memory_groups("4:memory:/a/b\n3:cpuset:/c\n1:name=systemd:/d\n", "/r"),
              ElementsAre(MemoryGroup{"/r/memory/a/b", false}, MemoryGroup{"/r/memory/a", false},
                          MemoryGroup{"/r/memory", false}));
  EXPECT_THAT(memory_groups("0::/a\n", "/r"),
              ElementsAre(MemoryGroup{"/r/a", true}, MemoryGroup{"/r", true}));
  EXPECT_THAT(memory_groups("0::/\n", "/r"), ElementsAre(MemoryGroup{"/r", true}));
  EXPECT_THAT(memory_groups("0::/a:b", "/r"),
              ElementsAre(MemoryGroup{"/r/a:b", true}, MemoryGroup{"/r", true}));
  EXPECT_THAT(memory_groups("", "/r"), IsEmpty());
  EXPECT_THAT(memory_groups("nonsense\n1:\n", "/r"), IsEmpty());
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "room.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void put(const char* name, const char* text) const { std::ofstream(path_ + "/" + name) << text; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(MemoryRoom, FilesThatTheKernelTakesBackAreRoom) {
  const Folder two;
  two.put("memory.max", "1000000\n");
  two.put("memory.current", "900000\n");
  two.put("memory.stat", "anon 1\nactive_file_not 7\nactive_file 100000\ninactive_file 200000\n");
  EXPECT_EQ(room_in({two.path(), true}), 400000u);
  two.put("memory.max", "max\n");
  EXPECT_EQ(room_in({two.path(), true}), std::nullopt);
  EXPECT_EQ(room_in({two.path(), false}), std::nullopt) << "no such files";

  const Folder one;
  one.put("memory.limit_in_bytes", "1000000\n");
  one.put("memory.usage_in_bytes", "1200000\n");
  one.put("memory.stat", "active_file 5\ntotal_active_file 100000\ntotal_inactive_file 150000");
  EXPECT_EQ(room_in({one.path(), false}), 50000u);
  one.put("memory.usage_in_bytes", "2200000\n");
  EXPECT_EQ(room_in({one.path(), false}), 0u);
  one.put("memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(room_in({one.path(), false}), std::nullopt);
}

}  // namespace
}  // namespace rtrace::tracee::memory_room_test
