#include "rtrace/proto/catalogue.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>
#include <variant>

#include "deferred_conf.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::proto {
namespace {

namespace fs = std::filesystem;
using FileRef = std::shared_ptr<const ParsedFile>;

// No prototype file is near this; a device or a core given by mistake is stopped here.
constexpr size_t kMaxFile = size_t{16} << 20;

std::string read_whole(const std::string& path) {
  // Whatever is there, nobody is waited for.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0)
    throw Error::from_errno(errno, "cannot read prototypes from {}", path);
  // It is read more than once.
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
    throw Error::make("cannot read prototypes from {}: a pipe or a socket, and no file", path);
  const bool known = status.st_size > 0;
  constexpr size_t kMore = 4096;  // of a file that does not tell its size
  std::string text(known ? std::min(static_cast<size_t>(status.st_size), kMaxFile) : kMore, '\0');
  size_t filled = 0;
  ssize_t got = 0;
  while ((got = read(fd.get(), text.data() + filled, text.size() - filled)) > 0) {
    filled += static_cast<size_t>(got);
    if (filled > kMaxFile)
      throw Error::make("{} is larger than {} bytes, expected a prototype file", path, kMaxFile);
    if (known && filled == static_cast<size_t>(status.st_size)) break;
    if (filled == text.size()) text.resize(filled + std::max(filled, kMore));
  }
  if (got < 0) throw Error::from_errno(errno, "cannot read prototypes from {}", path);
  text.resize(filled);
  return text;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// "libruby-3.1" -> "libruby-3" -> "libruby"; "python3.11" -> "python3" -> "python". A digit that is part of a
// library's name is none of a version: libX11 is not libX.
bool drop_version(std::string& stem, bool is_library) {
  const size_t last = stem.find_last_not_of("0123456789");
  if (last == std::string::npos || last + 1 == stem.size()) return false;
  const bool separated = stem[last] == '.' || stem[last] == '-';
  if (!separated && is_library) return false;
  stem.resize(separated ? last : last + 1);
  return !stem.empty();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::string suffix = entry.path().extension();
    if ((suffix == ".conf" || suffix == ".toml") && is_file(entry.path())) paths.push_back(entry.path());
  }
  // TOML first, as for one library; then by name, so that the order never depends on the file system.
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.ends_with(".conf"), a) < std::pair(b.ends_with(".conf"), b);
  });
  return paths;
}

bool serves(const ParsedFile& file, const std::vector<std::string>& names) {
  return file.soname.empty() || names.empty() ||
         std::find(names.begin(), names.end(), file.soname) != names.end();
}

std::shared_ptr<const Prototype> look_up(const ParsedFile& file, std::string_view function) {
  auto found = file.functions.find(function);
  return found == file.functions.end() ? nullptr : found->second;
}

}  // namespace

std::vector<std::string> names_of_object(std::string_view object) {
  std::string name(basename_of(object));
  std::vector<std::string> names;
  if (name.empty()) return names;
  names.push_back(name);
  size_t so = name.find(".so.");
  if (so == std::string::npos && name.ends_with(".so")) so = name.size() - 3;
  const bool is_library = so != std::string::npos;
  while (is_library && name.size() > so + 3) {
    name.resize(name.rfind('.'));
    names.push_back(name);
  }
  std::string stem = is_library ? name.substr(0, so) : name;
  while (drop_version(stem, is_library)) names.push_back(is_library ? stem + ".so" : stem);
  return names;
}

struct Catalogue::Impl {
  // A place where prototypes come from: one file for all objects, or a folder.
  struct Source {
    std::string path;
    bool is_folder = false;
    bool serves_all = false;  // of a folder: its files apply to every object, those named for it first
    // How its files in ltrace's language are read: whole when an object is first asked for, or not before a
    // function is asked for that they seem to name, or entry by entry.
    enum class Reading : uint8_t { whole, when_named, by_entry } reading = Reading::whole;
    // What was found for an object. The same few are asked for again and again.
    std::map<std::string, std::vector<std::string>, std::less<>> candidates{};
  };

  struct Unparsed {
    explicit Unparsed(std::string read) : text(std::move(read)), index(text) {}
    const std::string text;
    ConfIndex index;
  };

  std::vector<Source> explicit_sources, folders, fallbacks;
  std::map<std::string, FileRef, std::less<>> files;  // by path; nullptr while it is being read
  std::map<std::string, std::unique_ptr<DeferredConf>, std::less<>> deferred_files;
  std::shared_ptr<DeferredConf::Scope> deferred_types = std::make_shared<DeferredConf::Scope>();
  std::map<std::string, std::unique_ptr<Unparsed>, std::less<>> unparsed;
  // The file that `import "NAME";` means in a file of this folder: most import the same types.
  std::map<std::pair<std::string, std::string>, std::string> imports;

  FileRef load(const std::string& path, Diagnostics& diagnostics) {
    auto [entry, is_new] = files.emplace(path, nullptr);
    if (!is_new) return entry->second;
    std::string text;
    try {
      text = read_whole(path);
    } catch (const Error& error) {
      diagnostics.push_back(error.what());
    }
    Importer import = [&](std::string_view name) { return load_import(path, name, diagnostics); };
    auto parse = path.ends_with(".toml") ? parse_toml : parse_conf;
    FileRef parsed = std::make_shared<const ParsedFile>(parse(text, path, import, diagnostics));
    return files[path] = parsed;
  }

  DeferredConf* load_deferred(const std::string& path, Diagnostics& diagnostics) {
    if (auto known = deferred_files.find(path); known != deferred_files.end()) return known->second.get();
    std::string text;
    try {
      text = read_whole(path);
    } catch (const Error& error) {
      diagnostics.push_back(error.what());
    }
    auto import = [this, path](std::string_view name, Diagnostics& found_out) -> DeferredConf::Import {
      const std::string other = path_of_import(path, name);
      if (other.empty()) return {};
      if (is_deferrable(other)) return load_deferred(other, found_out);
      return load(other, found_out);
    };
    auto& file = deferred_files[path];
    file = std::make_unique<DeferredConf>(std::move(text), path, import, deferred_types);
    return file.get();
  }

  // ltrace's own file takes a millisecond, and knows hardly anything that the shipped ones do not.
  bool may_name(const std::string& path, std::string_view function) {
    if (files.contains(path)) return true;
    auto& file = unparsed[path];
    try {
      if (file == nullptr) file = std::make_unique<Unparsed>(read_whole(path));
    } catch (const Error&) {
      return true;  // to be said when it is loaded
    }
    return !file->index.imports().empty() || !file->index.find(ConfItem::Kind::prototype, function).empty();
  }

  static bool is_deferrable(const std::string& path) { return !path.ends_with(".toml"); }

  const std::string& path_of_import(const std::string& from, std::string_view name) {
    std::string folder = fs::path(from).parent_path();
    const auto [known, fresh] = imports.try_emplace(std::pair(folder, std::string(name)));
    if (fresh) known->second = find_import(folder, name);
    return known->second;
  }

  std::string find_import(const std::string& folder, std::string_view name) const {
    std::vector<fs::path> places = {folder};
    for (const Source& source : explicit_sources)
      if (source.is_folder) places.push_back(source.path);
    for (const Source& source : folders) places.push_back(source.path);
    for (const fs::path& place : places) {
      for (const char* suffix : {".toml", ".conf", ""}) {
        fs::path path = place / (std::string(name) + suffix);
        if (is_file(path)) return path;
      }
    }
    return {};
  }

  // A file that imports itself, over however many corners, gets nothing the second time.
  FileRef load_import(const std::string& from, std::string_view name, Diagnostics& diagnostics) {
    const std::string path = path_of_import(from, name);
    return path.empty() ? nullptr : load(path, diagnostics);
  }

  // The files of a folder that may speak for the object, the most specific first.
  static std::vector<std::string> candidates(const Source& source, const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names) {
      for (const char* suffix : {".toml", ".conf"}) {
        std::string path = fs::path(source.path) / (name + suffix);
        if (is_file(path)) paths.push_back(path);
      }
    }
    if (source.serves_all || names.empty())
      for (std::string& path : files_in(source.path))
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(std::move(path));
    return paths;
  }

  static const std::vector<std::string>& known_candidates(Source& source,
                                                          const std::vector<std::string>& names) {
    auto [known, fresh] = source.candidates.try_emplace(names.empty() ? std::string() : names.front());
    if (fresh)
      known->second = source.is_folder ? candidates(source, names) : std::vector<std::string>{source.path};
    return known->second;
  }

  std::shared_ptr<const Prototype> find_in(Source& source, std::string_view function,
                                           const std::vector<std::string>& names, Diagnostics& diagnostics) {
    for (const std::string& path : known_candidates(source, names)) {
      std::shared_ptr<const Prototype> prototype;
      const bool deferrable = is_deferrable(path);
      if (deferrable && source.reading == Source::Reading::by_entry) {
        prototype = load_deferred(path, diagnostics)->function(function, diagnostics);
      } else if (!deferrable || source.reading != Source::Reading::when_named || may_name(path, function)) {
        FileRef file = load(path, diagnostics);
        if (file != nullptr && serves(*file, names)) prototype = look_up(*file, function);
      }
      if (prototype) return prototype;
    }
    return nullptr;
  }

  std::shared_ptr<const Prototype> find_in(std::vector<Source>& sources, std::string_view function,
                                           const std::vector<std::string>& names, Diagnostics& diagnostics) {
    for (Source& source : sources)
      if (auto prototype = find_in(source, function, names, diagnostics)) return prototype;
    return nullptr;
  }
};

Catalogue::Catalogue() : impl_(std::make_unique<Impl>()) {}
Catalogue::~Catalogue() = default;

void Catalogue::add(const std::string& path, Diagnostics& diagnostics) {
  std::error_code error;
  impl_->imports.clear();  // it may have what was not there before
  if (!fs::is_directory(path, error)) {
    read_whole(path);
    impl_->explicit_sources.push_back({path, false, true});
    impl_->load(path, diagnostics);
    return;
  }
  std::vector<std::string> paths = files_in(path);
  fs::directory_iterator probe(path, error);
  if (error) throw Error::from_errno(error.value(), "cannot read prototypes from {}", path);
  impl_->explicit_sources.push_back({path, true, true});
  for (const std::string& file : paths) impl_->load(file, diagnostics);
}

void Catalogue::add_folder(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) impl_->folders.push_back({path, true, false});
  if (fs::is_regular_file(status)) impl_->folders.push_back({path, false, true});
}

void Catalogue::add_shipped(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    impl_->folders.push_back({path, true, false, Impl::Source::Reading::by_entry});
}

void Catalogue::add_fallback(const std::string& path) {
  std::error_code ignored;
  constexpr auto kReading = Impl::Source::Reading::when_named;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) impl_->fallbacks.push_back({path, true, false, kReading});
  if (fs::is_regular_file(status)) impl_->fallbacks.push_back({path, false, true, kReading});
}

std::shared_ptr<const Prototype> Catalogue::find(std::string_view function, std::string_view object,
                                                 Diagnostics& diagnostics) {
  auto prototype = find_specific(function, object, diagnostics);
  return prototype ? prototype : find_fallback(function, object, diagnostics);
}

std::shared_ptr<const Prototype> Catalogue::find_specific(std::string_view function, std::string_view object,
                                                          Diagnostics& diagnostics) {
  const std::vector<std::string> names = names_of_object(object);
  auto prototype = impl_->find_in(impl_->explicit_sources, function, names, diagnostics);
  return prototype ? prototype : impl_->find_in(impl_->folders, function, names, diagnostics);
}

std::shared_ptr<const Prototype> Catalogue::find_fallback(std::string_view function, std::string_view object,
                                                          Diagnostics& diagnostics) {
  return impl_->find_in(impl_->fallbacks, function, names_of_object(object), diagnostics);
}

}  // namespace rtrace::proto
