// SDT probes: -x sdt:PROVIDER:NAME.
#include <algorithm>
#include <set>

#include "explain.h"
#include "planners.h"
#include "rtrace/base/text.h"

namespace rtrace::plan {
namespace {

using elf::LoadedObject;
using elf::SdtNote;
using Side = SdtFilter::Side;

constexpr size_t kListed = 8;
constexpr size_t kNearestNotes = 5;

void add(const ActiveRequest& active, const LoadedObject& object, const SdtNote& note, PairRole role,
         Findings& findings) {
  ProbePoint point;
  point.kind = ProbeKind::sdt;
  point.address = object.at(note.address);
  point.object = object.id;
  point.name = active.request.sdt.label(note);
  point.library = object.main_program ? "" : object.name();
  point.prototype_object = object.name();
  point.pair = role;
  point.sdt_arguments = note.arguments;
  if (note.semaphore) point.semaphore = object.at(note.semaphore);
  point.requests = {active.index};
  point.reason = "SDT note";
  if (role != PairRole::none)
    point.reason += fmt::format(", the {} of the pair", role == PairRole::begin ? "begin" : "end");
  if (point.semaphore) point.reason += fmt::format(", semaphore at {}", point.semaphore);
  findings.points.add(std::move(point), rank_of(note.name, true, false, true));
}

bool has(const LoadedObject& object, const Side& side) {
  return std::ranges::any_of(object.file->sdt_notes(),
                             [&](const SdtNote& note) { return side.matches(note); });
}

void add_all(const ActiveRequest& active, const Objects& objects, const Side& side, PairRole role,
             Findings& findings) {
  for (const LoadedObject& object : objects) {
    std::vector<const SdtNote*> notes;
    for (const SdtNote& note : object.file->sdt_notes())
      if (side.matches(note)) notes.push_back(&note);
    if (notes.empty()) continue;
    std::ranges::stable_sort(notes, {}, &SdtNote::address);
    SymbolPlaces places(*object.file);
    for (const SdtNote* note : notes) {
      if (places.may_begin_at(note->address)) {
        add(active, object, *note, role, findings);
        continue;
      }
      findings.declined.push_back({.name = active.request.sdt.label(*note),
                                   .object = object.name(),
                                   .reason = "its note points into an instruction",
                                   .request = active.index});
    }
  }
}

// Its two ends may be in two objects, of which either may come later: none stands until both are there.
void plan_pair(const ProcessView& view, const ActiveRequest& active, Findings& findings) {
  const Side& begin = active.request.sdt.first();
  const Side& end = *active.request.sdt.end();
  const auto in = [](const Objects& objects, const Side& side) {
    return std::ranges::any_of(objects, [&](const LoadedObject& object) { return has(object, side); });
  };
  if (!in(view.added(), begin) && !in(view.added(), end)) return;
  const bool begins = in(view.objects(), begin), ends = in(view.objects(), end);
  if (begins && ends) {
    add_all(active, view.objects(), begin, PairRole::begin, findings);
    add_all(active, view.objects(), end, PairRole::end, findings);
    return;
  }
  const Side& missing = begins ? end : begin;
  findings.declined.push_back(
      {.name = "sdt:" + (begins ? begin : end).text(),
       .object = "the mapped objects",
       .reason = "no mapped object has the other end of the pair, sdt:" + missing.text(),
       .request = active.index});
}

// "ruby (libruby-3.1.so.3.1), python (python3.11)"
std::string providers_of(const Objects& objects) {
  std::set<std::string> words;
  for (const LoadedObject& object : objects)
    for (const SdtNote& note : object.file->sdt_notes())
      words.insert(fmt::format("{} ({})", note.provider, object.name()));
  return listed({words.begin(), words.end()}, kListed);
}

std::string from_memory_only(const Objects& objects) {
  std::vector<std::string> names;
  for (const LoadedObject& object : objects)
    if (object.file->is_from_memory()) names.push_back(object.name());
  return names.empty() ? std::string()
                       : fmt::format("{} could be read from memory only, where SDT notes are not loaded",
                                     listed(names, kListed));
}

std::string without_wildcards(const Pattern& pattern) {
  std::string core = pattern.text();
  std::erase_if(core, [](char c) { return c == '*' || c == '?' || c == '[' || c == ']' || c == '\\'; });
  return core;
}

std::string why_no_note(const Side& side, const Objects& objects) {
  std::vector<std::string> names, clauses;
  for (const LoadedObject& object : objects)
    for (const SdtNote& note : object.file->sdt_notes()) {
      if (side.matches(note)) return {};
      if (side.provider.matches(note.provider)) names.emplace_back(note.name);
    }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::string providers = providers_of(objects);
  if (!names.empty()) {
    auto nearest = nearest_names(without_wildcards(side.name), names, kNearestNotes);
    clauses.push_back(fmt::format("provider {} has no SDT probe {}", side.provider.text(), side.name.text()));
    clauses.push_back(nearest.empty() ? "its probes: " + listed(names, kListed)
                                      : "nearest names: " + listed(nearest, kNearestNotes));
  } else if (!providers.empty()) {
    clauses.push_back(fmt::format("no mapped object has SDT probes of a provider {}", side.provider.text()));
    clauses.push_back("providers are " + providers);
  } else {
    clauses.emplace_back(
        "no mapped object has SDT probes (programs have them that were built with <sys/sdt.h>)");
  }
  clauses.push_back(from_memory_only(objects));
  return joined(clauses);
}

}  // namespace

void plan_sdt(const ProcessView& view, const ActiveRequest& active, Findings& findings) {
  if (active.request.sdt.end()) return plan_pair(view, active, findings);
  add_all(active, view.added(), active.request.sdt.first(), PairRole::none, findings);
}

std::string explain_no_sdt_match(const SdtFilter& filter, const Objects& objects) {
  const std::string first = why_no_note(filter.first(), objects);
  const std::string end = filter.end() ? why_no_note(*filter.end(), objects) : std::string();
  return joined({first, end == first ? std::string() : end});
}

}  // namespace rtrace::plan
