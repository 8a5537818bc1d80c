#include "shardwise/shard/chunk_plan.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

namespace shardwise {
namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t saturate(Wide value) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  return value > static_cast<Wide>(most) ? most : static_cast<std::uint64_t>(value);
}

Wide peak(std::uint64_t fixed, std::int64_t rows, std::uint64_t row_bytes, std::int64_t resident) {
  // At most 2^63 * 2^64 without `resident`: saturating the first product keeps the rest in 128 bits.
  const Wide one = saturate(static_cast<Wide>(rows) * row_bytes);
  return one * static_cast<Wide>(resident) + fixed;
}

// Chunks alive at once: a shard of two chunks never holds three.
std::int64_t resident(const ChunkRequest& request, std::int64_t chunk) {
  const std::int64_t count = request.rows / chunk + (request.rows % chunk != 0);
  return std::min<std::int64_t>(request.resident_chunks, count);
}

Wide peak_of_chunk(const ChunkRequest& request, std::int64_t chunk) {
  return peak(request.fixed_bytes, chunk, request.row_bytes, resident(request, chunk));
}

// The largest chunk of at most `limit` rows that fits; 0 where not one row does.
//
// Fewer chunks may be alive for a larger size, so the peak is no monotone function of the size. For each
// number `alive` the bound room / (row_bytes * alive) is tried: it fits exactly where no more than `alive`
// chunks of that size are alive, and the best size is the bound of its own number.
std::int64_t largest_that_fits(const ChunkRequest& request, std::uint64_t budget, std::int64_t limit) {
  if (request.fixed_bytes > budget) return 0;
  const Wide room = budget - request.fixed_bytes;
  std::int64_t best = 0;
  for (std::int64_t alive = 1; alive <= request.resident_chunks; ++alive) {
    const Wide each = static_cast<Wide>(request.row_bytes) * static_cast<Wide>(alive);
    const Wide bound = each == 0 ? static_cast<Wide>(limit) : room / each;
    const auto chunk = static_cast<std::int64_t>(std::min(bound, static_cast<Wide>(limit)));
    if (chunk > best && resident(request, chunk) <= alive) best = chunk;
  }
  return best;
}

// The size of at least `least` rows with the lowest peak: what a refusal asks for.
std::int64_t cheapest_chunk(const ChunkRequest& request, std::int64_t least, std::int64_t limit) {
  std::int64_t best = least;
  for (std::int64_t alive = 1; alive <= request.resident_chunks; ++alive) {
    const std::int64_t chunk = std::max(least, request.rows / alive + (request.rows % alive != 0));
    if (chunk <= limit && peak_of_chunk(request, chunk) < peak_of_chunk(request, best)) best = chunk;
  }
  return best;
}

std::string on_device(const ChunkRequest& request) {
  return request.device.empty() ? "" : " on device " + request.device;
}

void check(const ChunkRequest& request) {
  std::ostringstream text;
  if (request.rows < 0) {
    text << "plan: " << request.rows << " " << request.unit << "; the number cannot be negative";
  } else if (request.explicit_chunk < 0) {
    text << "plan: a chunk of " << request.explicit_chunk << " " << request.unit
         << "; give at least 1, or 0 for none";
  } else if (request.resident_chunks < 1 || request.least_rows < 1) {
    text << "plan: " << request.resident_chunks << " resident chunks of at least " << request.least_rows
         << " " << request.unit << "; both must be at least 1";
  } else if (request.cap_rows != 0 &&
             request.cap_rows < std::min(request.least_rows, std::max<std::int64_t>(request.rows, 1))) {
    text << "plan: a chunk may have at most " << request.cap_rows << " " << request.unit << " ("
         << request.cap_reason << "), below the least of " << request.least_rows;
  } else if (request.cap_rows > 0 && request.explicit_chunk > request.cap_rows &&
             request.rows > request.cap_rows) {
    text << "plan: the chunk size of " << request.explicit_chunk << " " << request.unit
         << " is above the largest, " << request.cap_rows << " (" << request.cap_reason
         << "); give at most that, or none";
  }
  if (!text.str().empty()) throw std::invalid_argument(text.str());
}

[[noreturn]] void refuse_least(const ChunkRequest& request, std::uint64_t budget,
                               const std::string& budget_words, std::int64_t least) {
  const std::uint64_t needed = saturate(peak_of_chunk(request, least));
  std::ostringstream text;
  text << "memory: " << budget << " bytes (" << budget_words << ")" << on_device(request)
       << " do not hold the smallest chunk of " << least << " " << request.unit << ", which needs " << needed
       << " bytes (" << request.fixed_bytes << " fixed + " << least << " x " << request.row_bytes << " x "
       << resident(request, least) << "); give at least " << needed << " bytes, or a smaller problem";
  throw PlanRefused(text.str(), needed, budget, 0);
}

[[noreturn]] void refuse_explicit(const ChunkRequest& request, std::int64_t chunk, std::int64_t fits) {
  const std::uint64_t needed = saturate(peak_of_chunk(request, chunk));
  std::ostringstream text;
  text << "memory: a chunk of " << chunk << " " << request.unit << on_device(request) << " needs " << needed
       << " bytes (" << request.fixed_bytes << " fixed + " << chunk << " x " << request.row_bytes << " x "
       << resident(request, chunk) << "), above the budget of " << request.budget_bytes
       << " bytes; the largest chunk that fits has " << fits << " " << request.unit;
  throw PlanRefused(text.str(), needed, request.budget_bytes, fits);
}

}  // namespace

const char* to_string(ChunkSource source) noexcept {
  switch (source) {
    case ChunkSource::whole_shard:
      return "shard";
    case ChunkSource::explicit_size:
      return "explicit";
    case ChunkSource::budget:
      return "budget";
    case ChunkSource::cap:
      return "cap";
  }
  return "unknown";
}

ChunkPlan plan_chunks(const ChunkRequest& request) {
  check(request);
  ChunkPlan plan;
  plan.row_bytes = request.row_bytes;
  plan.fixed_bytes = request.fixed_bytes;
  if (request.rows == 0) {
    plan.reason = "the shard is empty";
    return plan;
  }
  const std::int64_t limit = request.cap_rows > 0 ? std::min(request.rows, request.cap_rows) : request.rows;
  const std::int64_t least = std::min(request.least_rows, limit);
  const bool capped = limit < request.rows;

  std::uint64_t budget = request.budget_bytes;
  std::string budget_words = "the budget";
  if (budget == 0 && request.explicit_chunk == 0 && request.free_bytes > 0) {
    budget = request.free_bytes / 100 * kFreePercent + request.free_bytes % 100 * kFreePercent / 100;
    budget_words =
        std::to_string(kFreePercent) + " % of " + std::to_string(request.free_bytes) + " bytes free";
  }
  plan.budget_bytes = budget;
  const bool limited = budget > 0;
  const std::int64_t fits = limited ? largest_that_fits(request, budget, limit) : limit;
  if (fits < least) refuse_least(request, budget, budget_words, cheapest_chunk(request, least, limit));

  if (request.explicit_chunk > 0) {
    const std::int64_t chunk = std::min(request.explicit_chunk, request.rows);
    if (limited && peak_of_chunk(request, chunk) > budget) refuse_explicit(request, chunk, fits);
    plan.source = ChunkSource::explicit_size;
    plan.chunk_rows = chunk;
    plan.reason = "the chunk size was given";
  } else {
    plan.chunk_rows = fits;
    if (plan.chunk_rows < limit) {
      plan.source = ChunkSource::budget;
      plan.reason = "the largest chunk that fits " + budget_words;
    } else if (capped) {
      plan.source = ChunkSource::cap;
      plan.reason = request.cap_reason;
    } else {
      plan.source = ChunkSource::whole_shard;
      plan.reason = limited ? "the whole shard fits " + budget_words : "nothing limits the chunk";
    }
  }
  plan.chunk_count = request.rows / plan.chunk_rows + (request.rows % plan.chunk_rows != 0);
  plan.resident_chunks = static_cast<int>(resident(request, plan.chunk_rows));
  return plan;
}

std::int64_t ChunkPlan::next_rows(std::int64_t left) const noexcept {
  if (left > chunk_rows) return chunk_rows;
  return halves_last && left > chunk_rows - left ? left - left / 2 : left;
}

void halve_last_chunk(ChunkPlan& plan, std::int64_t rows) {
  if (plan.chunk_count < 2) return;
  const std::int64_t last = rows - (plan.chunk_count - 1) * plan.chunk_rows;
  if (last < 2 || last <= plan.chunk_rows - last) return;
  plan.halves_last = true;
  ++plan.chunk_count;
}

std::uint64_t ChunkPlan::estimated_peak_bytes() const noexcept {
  return saturate(peak(fixed_bytes, chunk_rows, row_bytes, resident_chunks));
}

std::string ChunkPlan::explain(const std::string& unit) const {
  std::ostringstream text;
  text << chunk_count << (chunk_count == 1 ? " chunk" : " chunks") << " of " << chunk_rows << " " << unit
       << " (" << to_string(source) << "): " << reason << "\n"
       << "estimated peak " << estimated_peak_bytes() << " bytes = " << fixed_bytes << " fixed + "
       << chunk_rows << " x " << row_bytes << " bytes x " << resident_chunks << " resident";
  if (budget_bytes > 0) text << ", budget " << budget_bytes;
  text << "\n";
  if (measured_row_bytes > 0) text << "measured " << measured_row_bytes << " bytes a row\n";
  return text.str();
}

}  // namespace shardwise
