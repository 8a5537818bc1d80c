#include "coverage_pieces.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "coverage_ranks.hpp"
#include "log.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t first_piece = std::int64_t{1} << 18;  // lanes of one device
constexpr std::int64_t enough_crossings = 16;

class Checkpoint {
 public:
  Checkpoint(const std::string& path, double every_s) : path_(path), every_s_(every_s) {}
  bool wanted() const { return !path_.empty(); }
  bool due() const {
    return wanted() && (!written_ || std::chrono::duration<double>(Clock::now() - last_).count() >= every_s_);
  }
  void write(const PartialFile& state) {
    OutputSet outputs;
    outputs.stage(path_, partial_bytes(state));
    outputs.commit(WhenStopped::commit);
    written_ = true;
    last_ = Clock::now();
    log_debug(fmt::format("'{}' holds {} lanes", path_, count_text(state.sums.lanes())));
  }
  double every_s() const { return every_s_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  double every_s_;
  bool written_ = false;
  Clock::time_point last_{};
};

class Pieces {
 public:
  Pieces(CoverageRunner& runner, CoverageRequest& request, PartialFile& state)
      : runner_(runner),
        request_(request),
        state_(state),
        checkpoint_(request.pieces.checkpoint, request.pieces.checkpoint_every_s),
        piece_(first_piece * runner.devices().size() * ranks().size()) {}

  /// Runs what is missing of the window.
  void cover(Window window) {
    Progress progress("coverage", "lanes");
    const std::int64_t whole = window.count;
    for (const Window& gap : gaps(state_.sums.windows, window)) {
      for (std::int64_t begin = gap.begin; begin < gap.end();) {
        const std::int64_t count =
            checkpoint_.wanted() ? std::min(piece_, gap.end() - begin) : gap.end() - begin;
        const std::int64_t before = state_.sums.lanes();
        run_piece({begin, count},
                  [&](std::int64_t done, std::int64_t) { progress.update(before + done, whole); });
        begin += count;
      }
    }
  }

  void write_checkpoint() {
    if (checkpoint_.wanted()) checkpoint_.write(state_);
  }

  const DispatchReport& dispatch() const { return dispatch_; }

 private:
  void run_piece(Window lanes, const ProgressFunction& progress) {
    CoverageOptions call = request_.options;
    call.sums = true;
    call.lane_offset = lanes.begin;
    call.lane_count = lanes.count;
    CoverageRun run;
    try {
      run = has_ranks() ? run_piece_on_ranks(runner_, call, progress) : runner_.run(call, progress);
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::interrupted || !checkpoint_.wanted()) throw;
      checkpoint_.write(state_);
      log_note(fmt::format("'{}' holds the {} lanes that were done; go on with --resume {}",
                           checkpoint_.path(), count_text(state_.sums.lanes()), checkpoint_.path()));
      throw;
    }
    merge(state_.sums, run.result.sums);
    state_.seconds += run.seconds;
    add_dispatch(dispatch_, run.result.dispatch);
    if (checkpoint_.due()) checkpoint_.write(state_);
    // Pieces of a quarter of the interval, growing at most fourfold at a time.
    const double rate = static_cast<double>(lanes.count) / std::max(run.seconds, 1e-6);
    const double wanted = rate * checkpoint_.every_s() / 4;
    piece_ =
        static_cast<std::int64_t>(std::clamp(wanted, static_cast<double>(kLaneGranule),
                                             4.0 * static_cast<double>(std::max(lanes.count, first_piece))));
  }

  CoverageRunner& runner_;
  CoverageRequest& request_;
  PartialFile& state_;
  Checkpoint checkpoint_;
  std::int64_t piece_;
  DispatchReport dispatch_;
};

/// Standard error over gain of cells with enough crossings, the lower median; none without such cells.
std::optional<double> median_ratio(const CoverageResult& result) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < result.standard_error.size(); ++i)
    if (result.crossings[i] >= enough_crossings && result.gain[i] > 0)
      ratios.push_back(result.standard_error[i] / result.gain[i]);
  if (ratios.empty()) return std::nullopt;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>((ratios.size() - 1) / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

/// The passes of the next round; `passes` where there is none.
int next_passes(int passes, std::optional<double> ratio, double wanted, const CoverageResult& result,
                std::int64_t grids_per_pass) {
  const auto cells = static_cast<std::int64_t>(result.gain.size());
  const std::int64_t fitting = ((std::int64_t{1} << 32) - 1) / (cells * grids_per_pass);
  const int limit = static_cast<int>(std::min<std::int64_t>(most_passes, fitting));
  const bool reached = std::ranges::any_of(result.crossings, [](std::int64_t count) { return count > 0; });
  if ((ratio && *ratio <= wanted) || !reached || passes >= limit) return passes;
  // The standard error falls with the root of the passes.
  const double share = ratio ? *ratio / wanted : 2;
  const double needed = std::ceil(passes * std::min(share * share, 4.0));
  return std::clamp(static_cast<int>(needed), std::min(passes + 1, limit), std::min(4 * passes, limit));
}

}  // namespace

std::optional<double> median_error_db(const CoverageResult& result) {
  const std::optional<double> ratio = median_ratio(result);
  if (!ratio) return std::nullopt;
  return 10 * std::log10(1 + *ratio);
}

CoverageRun run_pieces(CoverageRunner& runner, CoverageRequest& request, PartialFile& state,
                       std::optional<TargetError>* target) {
  CoverageOptions& options = request.options;
  const PieceRequest& wish = request.pieces;
  Pieces pieces(runner, request, state);
  CoverageRun run;
  for (;;) {
    const Window window = wish.has_window ? Window{wish.first_lane, wish.end_lane - wish.first_lane}
                                          : Window{0, coverage_lanes(options)};
    pieces.cover(window);
    run.result = finish_coverage(options, state.sums);
    if (!wish.target_error_db) break;
    const double wanted = std::pow(10, *wish.target_error_db / 10) - 1;
    const std::optional<double> ratio = median_ratio(run.result);
    const int grids = options.per_transmitter ? static_cast<int>(options.transmitters.size()) : 1;
    const int passes = next_passes(options.passes, ratio, wanted, run.result, grids);
    *target = TargetError{*wish.target_error_db, median_error_db(run.result), ratio && *ratio <= wanted};
    if (passes == options.passes) break;
    log_note(fmt::format("median error {} after {} passes, going on to {}",
                         (*target)->reached_db ? fmt::format("{:.3g} dB", *(*target)->reached_db) : "unknown",
                         options.passes, passes));
    options.passes = passes;
    options.samples = run.result.rays_per_pass * passes;
  }
  if (has_ranks()) end_pieces();
  pieces.write_checkpoint();
  run.result.dispatch = pieces.dispatch();
  run.seconds = state.seconds;
  return run;
}

}  // namespace shardwise::program
