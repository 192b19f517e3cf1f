#include "rtrace/plan/sdt_filter.h"

#include "filter_reader.h"

namespace rtrace::plan {
namespace {

constexpr std::string_view kPrefix = "sdt:";
constexpr std::string_view kTo = "..";

// A glob without anything special is a name.
Pattern pattern_of(std::string_view whole, std::string_view part) {
  for (size_t at = part.find('['); at != std::string_view::npos; at = part.find('[', at))
    at = checked_bracket_end(whole, part, at);
  return glob_pattern(std::string(part));
}

SdtFilter::Side side_of(std::string_view whole, std::string_view provider, std::string_view name) {
  const auto place = [&](std::string_view part) { return static_cast<size_t>(part.data() - whole.data()); };
  if (provider.empty())
    throw FilterError(whole, place(provider), "a provider is expected, as in sdt:ruby:gc__*");
  if (name.empty()) throw FilterError(whole, place(name), "a probe's name is expected, as in sdt:ruby:gc__*");
  if (const size_t colon = name.find(':'); colon != std::string_view::npos)
    throw FilterError(whole, place(name) + colon, "a second ':'");
  return {pattern_of(whole, provider), pattern_of(whole, name)};
}

}  // namespace

bool SdtFilter::Side::matches(const elf::SdtNote& note) const {
  return provider.matches(note.provider) && name.matches(note.name);
}

bool SdtFilter::is_meant(std::string_view text) {
  return text.starts_with(kPrefix) && !text.starts_with("sdt::");
}

SdtFilter SdtFilter::parse(std::string_view text) {
  const std::string_view body = text.substr(kPrefix.size());
  const size_t colon = body.find(':');
  if (colon == std::string_view::npos) throw FilterError(text, text.size(), "sdt:PROVIDER:NAME is expected");
  const std::string_view provider = body.substr(0, colon), names = body.substr(colon + 1);
  const size_t to = names.find(kTo);
  SdtFilter filter;
  filter.first_ = side_of(text, provider, names.substr(0, to));
  if (to == std::string_view::npos) return filter;
  const std::string_view end = names.substr(to + kTo.size());
  const size_t second = end.find(':');
  filter.end_ = second == std::string_view::npos
                    ? side_of(text, provider, end)
                    : side_of(text, end.substr(0, second), end.substr(second + 1));
  // Which end belongs to which begin is for the user to say.
  for (const Side* side : {&filter.first_, &*filter.end_})
    if (!side->provider.literal_name() || !side->name.literal_name())
      throw FilterError(text, kPrefix.size(), "a pair takes names, no patterns");
  return filter;
}

std::string SdtFilter::label(const elf::SdtNote& note) const {
  if (!end_) return fmt::format("{}:{}", note.provider, note.name);
  const std::string provider = *first_.provider.literal_name(), other = *end_->provider.literal_name();
  return fmt::format("{}:{}..{}{}", provider, *first_.name.literal_name(),
                     provider == other ? "" : other + ":", *end_->name.literal_name());
}

}  // namespace rtrace::plan
