#pragma once
// One call as the dispatcher builds it, on any device set: rows of a batch on the master, split over the
// devices; the remote shards in chunks through two pairs of buffers, each device with its own table. The
// caller fills the batch on the master's caller stream and each table on its device's caller stream before,
// and reads the result after. Bodies are plain memory operations on host and sim, copies and a per-item
// launch given by the test on CUDA.
//
//   master:  compute(own rows) ────────────────────────────────────────► checksum(all rows)
//   remote:  scatter 0 ─► compute 0 ─► gather 0 ─┐                            ▲
//            scatter 1 ─► compute 1 ─► gather 1 ─┼────────────────────────────┘
//            scatter 2 (buffer 0: after compute 0) ─► compute 2 (after gather 0) ─► ...

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::test {

using Word = std::uint32_t;

/// out[i] = mix(in[i], table[in[i] % table_size]).
inline constexpr Word table_size = 64;
inline Word mix_rows(Word x, const Word* table) {
  return x * 2654435761u + table[x % table_size];
}

/// The work of `count` rows inside an operation: on host and sim done at once, on CUDA launched.
using RowLaunch =
    std::function<void(LaunchContext&, const Word* in, const Word* table, Word* out, std::int64_t count)>;

inline void launch_rows_on_host(LaunchContext& context, const Word* in, const Word* table, Word* out,
                                std::int64_t count) {
  context.parallel_for(count, 64, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = mix_rows(in[i], table);
  });
}

struct ScenarioOptions {
  std::int64_t rows = 1000;
  int chunks = 4;  ///< of each remote shard
  Word salt = 1;   ///< of the input, so that runs differ
  RowLaunch launch = launch_rows_on_host;
  /// Called with each operation's name inside its body; throws to make it fail.
  std::function<void(const std::string&)> fault;
  bool check_on_master = true;  ///< an operation that reads all of the output ends the graph
};

/// Buffers of the scenario and the calls on them. Buffers are allocated on the caller's streams.
class Scenario {
 public:
  Scenario(Executor& executor, ScenarioOptions options) : executor_(executor), options_(std::move(options)) {
    ExecutionContext& caller = executor_.default_context();
    const int devices = executor_.devices().size();
    for (int d = 0; d <= devices; ++d) bounds_.push_back(options_.rows * d / devices);
    input_ = Buffer<Word>(*caller.streams[0], rows(), "input");
    output_ = Buffer<Word>(*caller.streams[0], rows(), "output");
    sum_ = Buffer<Word>(*caller.streams[0], rows(), "read back");
    for (int d = 0; d < devices; ++d) {
      Stream& stream = *caller.streams[static_cast<std::size_t>(d)];
      tables_.emplace_back(stream, table_size, "table");
      auto& pair = staging_.emplace_back();
      if (d == 0) continue;
      for (int b = 0; b < 2; ++b) {
        pair.in[b] = Buffer<Word>(stream, chunk_rows(d), "chunk in");
        pair.out[b] = Buffer<Word>(stream, chunk_rows(d), "chunk out");
      }
    }
    host_input_.resize(rows());
    host_table_.resize(table_size);
    host_output_.assign(rows(), 0);
    for (std::size_t i = 0; i < host_input_.size(); ++i)
      host_input_[i] = static_cast<Word>(i) * 7919u + options_.salt * 104729u;
    for (Word i = 0; i < table_size; ++i) host_table_[i] = i * i + options_.salt;
  }

  /// What the caller enqueues before the call, on the caller's streams.
  void enqueue_before() {
    ExecutionContext& caller = executor_.default_context();
    caller.streams[0]->enqueue(named(copy_operation("caller fills input", input_.data(), host_input_.data(),
                                                    input_.bytes(), {input_.writes()})));
    caller.streams[0]->enqueue(
        named(zero_operation("caller clears output", output_.data(), output_.bytes(), {output_.writes()})));
    caller.streams[0]->enqueue(
        named(zero_operation("caller clears read back", sum_.data(), sum_.bytes(), {sum_.writes()})));
    for (int d = 0; d < executor_.devices().size(); ++d) {
      Stream& stream = *caller.streams[static_cast<std::size_t>(d)];
      const Buffer<Word>& table = tables_[static_cast<std::size_t>(d)];
      stream.enqueue(named(copy_operation("caller fills table", table.data(), host_table_.data(),
                                          table.bytes(), {table.writes()})));
      if (d == 0) continue;
      for (const auto* buffers :
           {&staging_[static_cast<std::size_t>(d)].in, &staging_[static_cast<std::size_t>(d)].out})
        for (const Buffer<Word>& buffer : *buffers)
          stream.enqueue(
              named(zero_operation("caller clears chunk", buffer.data(), buffer.bytes(), {buffer.writes()})));
    }
  }

  Graph graph() {
    Graph graph;
    const std::int64_t own = bounds_[1];
    graph.add(
        0, StreamRole::compute,
        rows_operation("rows of master", input_.data(), tables_[0], output_.data(), own,
                       {input_.access(AccessMode::read, 0, own), output_.access(AccessMode::write, 0, own)}));
    for (int chunk = 0; chunk < options_.chunks; ++chunk)
      for (int d = 1; d < executor_.devices().size(); ++d) {
        const std::int64_t first = bounds_[static_cast<std::size_t>(d)] + chunk_rows(d) * chunk;
        const std::int64_t count = std::min(chunk_rows(d), bounds_[static_cast<std::size_t>(d) + 1] - first);
        if (count <= 0) continue;
        const auto& staging = staging_[static_cast<std::size_t>(d)];
        const Buffer<Word>&in = staging.in[chunk % 2], &out = staging.out[chunk % 2];
        std::string which(" ");
        which.append(std::to_string(chunk)).append(" of ").append(std::to_string(d));
        graph.add(
            d, StreamRole::copy_in,
            named(copy_operation(
                "scatter" + which, in.data(), input_.data() + first, count * sizeof(Word),
                {input_.access(AccessMode::read, first, count), in.access(AccessMode::write, 0, count)})));
        graph.add(
            d, StreamRole::compute,
            rows_operation("rows" + which, in.data(), tables_[static_cast<std::size_t>(d)], out.data(), count,
                           {in.access(AccessMode::read, 0, count), out.access(AccessMode::write, 0, count)}));
        graph.add(
            d, StreamRole::copy_out,
            named(copy_operation(
                "gather" + which, output_.data() + first, out.data(), count * sizeof(Word),
                {out.access(AccessMode::read, 0, count), output_.access(AccessMode::write, first, count)})));
      }
    if (options_.check_on_master)
      graph.add(0, StreamRole::compute, named(copy_operation("read back", sum_, output_)));
    return graph;
  }

  /// What the caller enqueues after the call: the result goes to the host, and each device's buffers are used
  /// again.
  void enqueue_after() {
    ExecutionContext& caller = executor_.default_context();
    const Buffer<Word>& result = options_.check_on_master ? sum_ : output_;
    caller.streams[0]->enqueue(named(copy_operation("caller reads", host_output_.data(), result.data(),
                                                    result.bytes(), {result.reads()})));
    for (int d = 1; d < executor_.devices().size(); ++d)
      for (const Buffer<Word>& buffer : staging_[static_cast<std::size_t>(d)].in)
        caller.streams[static_cast<std::size_t>(d)]->enqueue(named(
            zero_operation("caller uses chunk again", buffer.data(), buffer.bytes(), {buffer.writes()})));
    for (int d = 1; d < executor_.devices().size(); ++d)
      for (const Buffer<Word>& buffer : staging_[static_cast<std::size_t>(d)].out)
        caller.streams[static_cast<std::size_t>(d)]->enqueue(named(
            zero_operation("caller uses chunk again", buffer.data(), buffer.bytes(), {buffer.writes()})));
  }

  void synchronize_callers() {
    for (const stream_ref& stream : executor_.default_context().streams) stream->synchronize();
  }

  const std::vector<Word>& output() const { return host_output_; }
  std::vector<Word> expected() const {
    std::vector<Word> result;
    for (const Word x : host_input_) result.push_back(mix_rows(x, host_table_.data()));
    return result;
  }

 private:
  struct Staging {
    Buffer<Word> in[2], out[2];
  };
  std::uint64_t rows() const { return static_cast<std::uint64_t>(options_.rows); }
  std::int64_t chunk_rows(int device) const {
    const auto d = static_cast<std::size_t>(device);
    return (bounds_[d + 1] - bounds_[d] + options_.chunks - 1) / options_.chunks;
  }

  Operation named(Operation operation) {
    if (!options_.fault) return operation;
    operation.body = [fault = options_.fault, name = operation.name,
                      body = std::move(operation.body)](LaunchContext& context) {
      fault(name);
      body(context);
    };
    return operation;
  }

  Operation rows_operation(std::string name, const Word* in, const Buffer<Word>& table, Word* out,
                           std::int64_t count, AccessList accesses) {
    Operation operation;
    operation.name = std::move(name);
    operation.accesses = accesses;
    operation.accesses.add(table.reads());
    operation.body = [launch = options_.launch, in, table = table.data(), out,
                      count](LaunchContext& context) { launch(context, in, table, out, count); };
    return named(std::move(operation));
  }

  Executor& executor_;
  ScenarioOptions options_;
  std::vector<std::int64_t> bounds_;
  Buffer<Word> input_, output_, sum_;
  std::vector<Buffer<Word>> tables_;
  std::vector<Staging> staging_;
  std::vector<Word> host_input_, host_table_, host_output_;
};

}  // namespace shardwise::test
