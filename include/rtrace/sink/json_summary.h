// The summary table as JSON lines (-c --json, --summary --json, --hist --json).
#pragma once

#include <string>

#include "rtrace/sink/summary_table.h"

namespace rtrace::sink {

enum class JsonRows : uint8_t { all, those_of_histograms };

// One `summary` object for each function, in the order of the table's rows, each a line.
std::string render_summary_json(const SummaryTable& table, JsonRows rows);

}  // namespace rtrace::sink
