#include "rtrace/proto/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::proto {
namespace {

namespace fs = std::filesystem;
using FileRef = std::shared_ptr<const ParsedFile>;

// No prototype file is near this; a device or a core given by mistake is stopped here.
constexpr size_t kMaxFile = size_t{16} << 20;

std::string read_whole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error::from_errno(errno, "cannot read prototypes from {}", path);
  std::string text;
  char chunk[16384];
  while (stream.read(chunk, sizeof chunk) || stream.gcount() > 0) {
    text.append(chunk, static_cast<size_t>(stream.gcount()));
    if (text.size() > kMaxFile)
      throw Error::make("{} is larger than {} bytes, expected a prototype file", path, kMaxFile);
  }
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
  };

  std::vector<Source> explicit_sources, folders, fallbacks;
  std::map<std::string, FileRef, std::less<>> files;  // by path; nullptr while it is being read

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

  // A file that imports itself, over however many corners, gets nothing the second time.
  FileRef load_import(const std::string& from, std::string_view name, Diagnostics& diagnostics) {
    std::vector<fs::path> places = {fs::path(from).parent_path()};
    for (const Source& source : explicit_sources)
      if (source.is_folder) places.push_back(source.path);
    for (const Source& source : folders) places.push_back(source.path);
    for (const fs::path& place : places) {
      for (const char* suffix : {".toml", ".conf", ""}) {
        fs::path path = place / (std::string(name) + suffix);
        if (is_file(path)) return load(path, diagnostics);
      }
    }
    return nullptr;
  }

  // The files of a folder that may speak for the object, the most specific first.
  std::vector<std::string> candidates(const Source& source, const std::vector<std::string>& names) const {
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

  std::shared_ptr<const Prototype> find_in(const Source& source, std::string_view function,
                                           const std::vector<std::string>& names, Diagnostics& diagnostics) {
    std::vector<std::string> paths =
        source.is_folder ? candidates(source, names) : std::vector<std::string>{source.path};
    for (const std::string& path : paths) {
      FileRef file = load(path, diagnostics);
      if (file == nullptr || !serves(*file, names)) continue;
      if (auto prototype = look_up(*file, function)) return prototype;
    }
    return nullptr;
  }

  std::shared_ptr<const Prototype> find_in(const std::vector<Source>& sources, std::string_view function,
                                           const std::vector<std::string>& names, Diagnostics& diagnostics) {
    for (const Source& source : sources)
      if (auto prototype = find_in(source, function, names, diagnostics)) return prototype;
    return nullptr;
  }
};

Catalogue::Catalogue() : impl_(std::make_unique<Impl>()) {}
Catalogue::~Catalogue() = default;

void Catalogue::add(const std::string& path, Diagnostics& diagnostics) {
  std::error_code error;
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
  if (fs::is_directory(path, ignored)) impl_->folders.push_back({path, true, false});
  if (is_file(path)) impl_->folders.push_back({path, false, true});
}

void Catalogue::add_fallback(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) impl_->fallbacks.push_back({path, true, false});
  if (is_file(path)) impl_->fallbacks.push_back({path, false, true});
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
