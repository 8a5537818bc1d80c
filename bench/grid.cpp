#include "bench/grid.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "bench/grid_solve.hpp"
#include "grid/prepared_state.hpp"
#include "grid/row_stream.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/links.hpp"

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

/// The same bytes as `words` reads or writes a cell, moved by a plain copy on the first device. On the host
/// by all its threads: with ordinary stores, as compilers build STREAM, or streamed past the caches, which
/// spares the reading of every line that is written.
std::function<double()> copy_rate(const DeviceSet& devices, std::int64_t bytes_of_a_field, double words,
                                  int count, bool streamed = false) {
  struct Copy {
    explicit Copy(const DeviceSet& d, std::int64_t bytes)
        : devices(d), stream(devices[0].create_stream("copy")) {
      const auto n = static_cast<std::uint64_t>(bytes);
      from = Memory(*stream, n, "copied");
      to = Memory(*stream, n, "copy");
      stream->enqueue(zero_operation("clear", from.data(), n, {from.access(AccessMode::write)}));
      stream->enqueue(zero_operation("clear", to.data(), n, {to.access(AccessMode::write)}));
    }
    void once(bool past_caches) {
      Operation copy;
      copy.name = "copy";
      copy.accesses = {to.access(AccessMode::write), from.access(AccessMode::read)};
      if (devices[0].kind() == PlatformKind::cuda) {
        copy = copy_operation("copy", to.data(), from.data(), from.bytes(), copy.accesses);
      } else {
        copy.body =
            [source = static_cast<const double*>(from.data()), target = static_cast<double*>(to.data()),
             lines = static_cast<std::int64_t>(from.bytes() / 64), past_caches](LaunchContext& context) {
              context.parallel_for(lines, 1 << 13, [&](std::int64_t begin, std::int64_t end) {
                if (past_caches) {
                  for (std::int64_t i = begin; i < end; ++i) stream_line(target + 8 * i, source + 8 * i);
                  finish_rows();
                } else {
                  for (std::int64_t i = 8 * begin; i < 8 * end; ++i) target[i] = source[i] * 1.0;
                }
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
  return [copy, words, count, streamed] {
    copy->stream->synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) copy->once(streamed);
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
  // A row for the forward operator is held against one thread a cell, one for its adjoint in either form
  // against the forward.
  const auto add = [&](const std::string& name, double words, const std::shared_ptr<Work<T>>& work, bool back,
                       const std::shared_ptr<Work<T>>& other) {
    Case row;
    row.name = fmt::format("{}-{}", name, type);
    row.work = fmt::format("{}, {} {}; one: {}", name, grid.shape_text(), type,
                           back ? "the forward" : "one thread a cell");
    row.devices = first[0].name();
    row.mode = "one device";
    row.units = cells;
    const auto best = std::make_shared<double>(1e30);
    row.all = [work, count, back, best] {
      const double s = work->apply(count, back);
      *best = std::min(*best, s);
      return s;
    };
    row.one = [other, count] { return other->apply(count); };
    row.limit = "copy";
    const auto least_streamed = std::make_shared<double>(0);
    row.limit_seconds = [plain_copy = copy_rate(first, bytes, words, count),
                         streamed_copy = copy_rate(first, bytes, words, count, true),
                         on_host = first[0].kind() != PlatformKind::cuda, least_streamed] {
      if (on_host) {
        const double s = streamed_copy();
        *least_streamed = *least_streamed > 0 ? std::min(*least_streamed, s) : s;
      }
      return plain_copy();
    };
    row.note_after = [best, words, cells, least_streamed] {
      return fmt::format(
          "{:.1f} GB/s effective ({} words a cell){}", words * cells * sizeof(T) / *best * 1e-9, words,
          *least_streamed > 0 ? fmt::format(", {:.2f} of a streamed copy", *least_streamed / *best)
                              : std::string());
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
  add("laplacian-adjoint", 2, l, true, l);
  const Operator d = diffusion(Coefficient::constant(grid, 1.5));
  const auto with_kappa = make(d);
  add("diffusion", 3, with_kappa, false, make(d, plain));
  add("diffusion-adjoint", 3, with_kappa, true, with_kappa);
  // Not two ways for every user to choose from: the reduce form is what operators of users can have.
  PrepareOptions reduce;
  reduce.adjoint = AdjointForm::reduce;
  add("laplacian-adjoint-reduce", 2, make(laplacian(grid), reduce), true, l);
  add("diffusion-adjoint-reduce", 3, make(d, reduce), true, with_kappa);
}

/// Adjoints in both forms over their forward, on a block as one of many has it: there launches count as much
/// as cells.
template <class T>
void add_small_adjoints(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n, int count,
                        const char* type) {
  const DeviceSet first = devices.first();
  const CartesianGrid grid = box(n, n, n);
  const auto add = [&](const char* name, const Operator& op) {
    for (const AdjointForm form : {AdjointForm::owner, AdjointForm::reduce}) {
      PrepareOptions options;
      options.adjoint = form;
      const auto work = std::make_shared<Work<T>>(grid, first, 1, op, options);
      Case row;
      row.name =
          fmt::format("{}-adjoint{}-{}-{}", name, form == AdjointForm::reduce ? "-reduce" : "", n, type);
      row.work = fmt::format("{}'s adjoint, {} form, {} {}; one: the forward", name,
                             form == AdjointForm::reduce ? "reduce" : "owner", grid.shape_text(), type);
      row.devices = first[0].name();
      row.mode = "one device";
      row.units = static_cast<double>(grid.cell_count());
      row.all = [work, count] { return work->apply(count, true); };
      row.one = [work, count] { return work->apply(count, false); };
      cases.push_back(std::move(row));
    }
  };
  add("laplacian", laplacian(grid));
  add("diffusion", diffusion(Coefficient::constant(grid, 1.5)));
}

/// A product as a solver calls it, with p . A p, against the application of the operator to a field.
template <class T>
void add_product(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n, int count,
                 const char* type) {
  const DeviceSet first = devices.first();
  const CartesianGrid grid = box(n, n, n);
  const auto work = std::make_shared<Work<T>>(grid, first, 1, -laplacian(grid), PrepareOptions{});
  const auto sums = std::make_shared<FieldSums>(work->blocks, Accumulation::exact);
  for (const bool with_sum : {false, true}) {
    Case row;
    row.name = fmt::format("{}-{}", with_sum ? "mul-with-dot" : "mul", type);
    row.work = fmt::format("y = A x on solver vectors{}, {} {}; one: apply to fields",
                           with_sum ? " and x . y, exact, on the host" : "", grid.shape_text(), type);
    row.devices = first[0].name();
    row.mode = "one device";
    row.units = static_cast<double>(grid.cell_count());
    const auto p = std::make_shared<Field<T>>(work->blocks, "p"),
               q = std::make_shared<Field<T>>(work->blocks, "q");
    p->fill(T(1));
    row.all = [=] {
      work->blocks.synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < count; ++i)
        if (with_sum)
          apply_with_dot(work->a, *q, *p, *sums);
        else
          work->a.apply(*q, *p);
      work->blocks.synchronize();
      return seconds_since(start) / count;
    };
    row.one = [=] { return work->apply(count); };
    cases.push_back(std::move(row));
  }
}

/// CG on Poisson to 1e-8: an iteration, with all that a solve does around them, against its 11 words a
/// cell.
void add_cg(std::vector<Case>& cases, const DeviceSet& devices, std::int64_t n) {
  const DeviceSet first = devices.first();
  const CartesianGrid grid = box(n, n, n);
  struct Solve : Work<double> {
    using Work<double>::Work;
    SolverResult last;
    double run() {
      y.fill(0);
      blocks.synchronize();
      const auto start = Clock::now();
      last = conjugate_gradient(a, y, x, SolverOptions<double>{});
      return seconds_since(start) / static_cast<double>(last.iterations);
    }
  };
  const auto work = std::make_shared<Solve>(grid, first, 1, -laplacian(grid), PrepareOptions{});
  // A right-hand side with all frequencies: constant ones are too easy.
  work->x.set(
      [](double x, double y, double z) { return (x > 0.4 ? 1 : -0.7) * (y < 0.3 ? 1 : 0.2) + z * z * x; });
  Case row;
  row.name = "cg-iteration-double";
  row.work = fmt::format("an iteration of CG with exact sums to 1e-8, {} double", grid.shape_text());
  row.devices = first[0].name();
  row.mode = "one device";
  row.units = static_cast<double>(grid.cell_count());
  row.all = [work] { return work->run(); };
  row.limit = "copy, 11 words";
  row.limit_seconds = copy_rate(first, grid.cell_count() * 8, 11, 8);
  row.note_after = [work] {
    return fmt::format("{} iterations, {}, |f - A u| / |f| = {:.2e}", work->last.iterations,
                       work->last.reason(), work->last.true_residual / (work->last.tolerance / 1e-8));
  };
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
  // The exchange alone: one plane to either neighbour.
  const CartesianGrid grid = box(n, n, n * parts);
  struct Exchange {
    Exchange(const CartesianGrid& g, const DeviceSet& d, int p)
        : blocks(g, LocalDevices{d, p}), field(blocks, "x"), halo(blocks, blocks.layout()) {
      field.fill(T(1));
    }
    Blocks blocks;
    Field<T> field;
    HaloExchange<T> halo;
  };
  const auto exchange = std::make_shared<Exchange>(grid, devices, parts);
  const auto bytes = static_cast<std::uint64_t>(n * n) * sizeof(T);
  Case row;
  row.name = fmt::format("exchange-{}", type);
  row.work = fmt::format("the ghosts of {} {} on {} devices: {} bytes to either neighbour", grid.shape_text(),
                         type, parts, bytes);
  row.devices = devices.spec();
  row.mode = "blocking";
  row.units = static_cast<double>(n * n * 2 * (parts - 1));
  row.all = [exchange, count] {
    exchange->blocks.synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) exchange->halo.scatter(exchange->field.storage());
    exchange->blocks.synchronize();
    return seconds_since(start) / count;
  };
  row.limit = "the slowest link";
  row.limit_seconds = [devices, bytes] {
    double slowest = 0;
    for (const DeviceLink& link : measure_links(devices, {bytes, 5}))
      slowest = std::max(slowest, static_cast<double>(bytes) / link.bytes_per_s);
    return slowest;
  };
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
  add_small_adjoints<float>(cases, devices, settings.quick ? 32 : 128, 5 * count, "float");
  add_small_adjoints<double>(cases, devices, settings.quick ? 32 : 128, 5 * count, "double");
  add_product<float>(cases, devices, n, count, "float");
  add_product<double>(cases, devices, n, count, "double");
  add_cg(cases, devices, settings.quick ? 48 : gpu ? 256 : 96);
  if (devices.size() > 1) {
    add_scaling<float>(cases, devices, n, count, "float");
    add_scaling<double>(cases, devices, n, count, "double");
  }
  add_solve_cases(cases, devices, settings);
  return cases;
}

}  // namespace shardwise::bench
