#include "bench/grid.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "bench/grid_solve.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CartesianGrid box(std::int64_t x, std::int64_t y, std::int64_t z) {
  GridSpec spec;
  spec.lo = {0, 0, 0};
  spec.hi = {1, static_cast<double>(y) / static_cast<double>(x),
             static_cast<double>(z) / static_cast<double>(x)};
  spec.cells = {x, y, z};
  return CartesianGrid(spec);
}

/// An operator on blocks with its fields.
template <class T>
struct Work {
  Work(const CartesianGrid& grid, const DeviceSet& devices, int parts, const Operator& op,
       const PrepareOptions& options)
      : blocks(grid, LocalDevices{devices, parts}), a(op, blocks, options), x(blocks, "x"), y(blocks, "y") {
    x.fill(T(1));
    y.fill(T(0));
    blocks.synchronize();
  }
  /// Seconds of one application, from `count` in a row.
  double apply(int count, bool back = false) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) back ? a.apply_adjoint(y, x) : a.apply(y, x);
    blocks.synchronize();
    return seconds_since(start) / count;
  }
  Blocks blocks;
  PreparedOperator<T> a;
  Field<T> x, y;
};

/// The same bytes as `words` reads or writes a cell, moved by a plain copy on the first device.
std::function<double()> copy_rate(const DeviceSet& devices, std::int64_t bytes_of_a_field, double words,
                                  int count) {
  struct Copy {
    explicit Copy(const DeviceSet& d, std::int64_t bytes)
        : devices(d), stream(devices[0].create_stream("copy")) {
      const auto n = static_cast<std::uint64_t>(bytes);
      from = Memory(*stream, n, "copied");
      to = Memory(*stream, n, "copy");
      stream->enqueue(zero_operation("clear", from.data(), n, {from.access(AccessMode::write)}));
      stream->enqueue(zero_operation("clear", to.data(), n, {to.access(AccessMode::write)}));
    }
    void once() {
      Operation copy;
      copy.name = "copy";
      copy.accesses = {to.access(AccessMode::write), from.access(AccessMode::read)};
      if (devices[0].kind() == PlatformKind::cuda) {
        copy = copy_operation("copy", to.data(), from.data(), from.bytes(), copy.accesses);
      } else {  // by all threads of the device
        copy.body = [source = static_cast<const double*>(from.data()),
                     target = static_cast<double*>(to.data()),
                     n = static_cast<std::int64_t>(from.bytes() / sizeof(double))](LaunchContext& context) {
          context.parallel_for(n, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) target[i] = source[i] * 1.0;
          });
        };
      }
      stream->enqueue(std::move(copy));
    }
    DeviceSet devices;
    std::unique_ptr<Stream> stream;
    Memory from, to;
  };
  const auto copy = std::make_shared<Copy>(devices, bytes_of_a_field);
  return [copy, words, count] {
    copy->stream->synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) copy->once();
    copy->stream->synchronize();
    return seconds_since(start) / count * (words / 2);
  };
}

template <class T>
void add_single(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n, int count,
                const char* type) {
  const DeviceSet first = devices.first();
  const CartesianGrid grid = box(n, n, n);
  const double cells = static_cast<double>(grid.cell_count());
  const auto bytes = static_cast<std::int64_t>(cells) * static_cast<std::int64_t>(sizeof(T));
  const auto add = [&](const std::string& name, double words, const std::shared_ptr<Work<T>>& work, bool back,
                       const std::shared_ptr<Work<T>>& plain) {
    Case row;
    row.name = fmt::format("{}-{}", name, type);
    row.work =
        fmt::format("{}, {} {}{}", name, grid.shape_text(), type, plain ? "; one: one thread a cell" : "");
    row.devices = first[0].name();
    row.mode = "one device";
    row.units = cells;
    const auto best = std::make_shared<double>(1e30);
    row.all = [work, count, back, best] {
      const double s = work->apply(count, back);
      *best = std::min(*best, s);
      return s;
    };
    if (plain) row.one = [plain, count, back] { return plain->apply(count, back); };
    row.limit = "copy";
    row.limit_seconds = copy_rate(first, bytes, words, count);
    row.note_after = [best, words, cells] {
      return fmt::format("{:.1f} GB/s effective ({} words a cell)", words * cells * sizeof(T) / *best * 1e-9,
                         words);
    };
    cases.push_back(std::move(row));
  };
  PrepareOptions plain;
  plain.plain_kernels = true;
  const auto make = [&](const Operator& op, const PrepareOptions& options = {}) {
    return std::make_shared<Work<T>>(grid, first, 1, op, options);
  };
  const auto l = make(laplacian(grid));
  add("laplacian", 2, l, false, make(laplacian(grid), plain));
  add("laplacian-adjoint", 2, l, true, nullptr);
  const Operator d = diffusion(Coefficient::constant(grid, 1.5));
  const auto with_kappa = make(d);
  add("diffusion", 3, with_kappa, false, make(d, plain));
  add("diffusion-adjoint", 3, with_kappa, true, nullptr);
}

/// One CG iteration of -Laplacian against its 11 words a cell.
void add_cg(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n, int iterations) {
  const DeviceSet first = devices.first();
  const CartesianGrid grid = box(n, n, n);
  struct Solve : Work<double> {
    using Work<double>::Work;
    double run(int count) {
      y.fill(0);
      blocks.synchronize();
      SolverOptions<double> options;
      options.rtol = 0;
      options.max_iterations = count;
      const auto start = Clock::now();
      const SolverResult result = conjugate_gradient(a, y, x, options);
      return seconds_since(start) / static_cast<double>(result.iterations);
    }
  };
  const auto work = std::make_shared<Solve>(grid, first, 1, -laplacian(grid), PrepareOptions{});
  // A right-hand side with all frequencies: constant ones are too easy.
  work->x.set(
      [](double x, double y, double z) { return (x > 0.4 ? 1 : -0.7) * (y < 0.3 ? 1 : 0.2) + z * z * x; });
  Case row;
  row.name = "cg-iteration-double";
  row.work = fmt::format("one of {} CG iterations with exact sums, {} double", iterations, grid.shape_text());
  row.devices = first[0].name();
  row.mode = "one device";
  row.units = static_cast<double>(grid.cell_count());
  row.all = [work, iterations] { return work->run(iterations); };
  row.limit = "copy, 11 words";
  row.limit_seconds = copy_rate(first, grid.cell_count() * 8, 11, 8);
  cases.push_back(std::move(row));
}

template <class T>
void add_scaling(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n, int count,
                 const char* type) {
  const int parts = devices.size();
  const auto one =
      std::make_shared<Work<T>>(box(n, n, n), devices.first(), 1, laplacian(box(n, n, n)), PrepareOptions{});
  for (const bool weak : {true, false})
    for (const Overlap overlap : {Overlap::off, Overlap::on}) {
      const CartesianGrid grid = box(n, n, weak ? n * parts : n);
      PrepareOptions options;
      options.overlap = overlap;
      const auto all = std::make_shared<Work<T>>(grid, devices, parts, laplacian(grid), options);
      Case row;
      row.name = fmt::format("{}-{}-{}", weak ? "weak" : "strong",
                             overlap == Overlap::on ? "overlapped" : "blocking", type);
      row.work =
          fmt::format("laplacian, {} {} on {} devices; one: {} on the first{}", grid.shape_text(), type,
                      parts, one->blocks.grid().shape_text(), weak ? " (ratio: the efficiency)" : "");
      row.devices = devices.spec();
      row.mode = overlap == Overlap::on ? "overlapped" : "blocking";
      row.units = static_cast<double>(grid.cell_count());
      row.all = [all, count] { return all->apply(count); };
      row.one = [one, count] { return one->apply(count); };
      cases.push_back(std::move(row));
    }
  // The exchange alone: an operator that is all ghosts on thin blocks.
  const CartesianGrid thin = box(n, n, 2 * parts);
  const auto exchange = std::make_shared<Work<T>>(thin, devices, parts, laplacian(thin), PrepareOptions{});
  Case row;
  row.name = fmt::format("exchange-{}", type);
  row.work =
      fmt::format("laplacian on two planes a device, {} {}: launches and messages", thin.shape_text(), type);
  row.devices = devices.spec();
  row.mode = "blocking";
  row.units = static_cast<double>(n * n * 2 * (parts - 1));
  row.all = [exchange, count] { return exchange->apply(count); };
  cases.push_back(std::move(row));
}

}  // namespace

std::vector<Case> grid_cases(const Settings& settings) {
  const DeviceSet devices = open_devices(settings.devices);
  const bool gpu = devices.master().kind() == PlatformKind::cuda;
  const std::int64_t n = settings.quick ? 64 : gpu ? 512 : 256;
  const int count = gpu ? 20 : settings.quick ? 3 : 4;
  std::vector<Case> cases;
  add_single<float>(cases, devices, n, count, "float");
  add_single<double>(cases, devices, n, count, "double");
  add_cg(cases, devices, settings.quick ? 48 : gpu ? 256 : 128, settings.quick ? 10 : gpu ? 100 : 20);
  if (devices.size() > 1) {
    add_scaling<float>(cases, devices, n, count, "float");
    add_scaling<double>(cases, devices, n, count, "double");
  }
  add_solve_cases(cases, devices, settings);
  return cases;
}

}  // namespace shardwise::bench
