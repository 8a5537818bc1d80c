#include "shardwise/dispatch/rows.hpp"

#include <fmt/format.h>

#include "dispatch/reachable.hpp"
#include "dispatch/row_plan.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

const char* to_string(SourceKind kind) noexcept {
  switch (kind) {
    case SourceKind::on_master:
      return "on_master";
    case SourceKind::on_host:
      return "on_host";
    case SourceKind::resident:
      return "resident";
    case SourceKind::generated:
      return "generated";
  }
  return "?";
}

const char* to_string(SinkKind kind) noexcept {
  switch (kind) {
    case SinkKind::to_master:
      return "to_master";
    case SinkKind::to_host:
      return "to_host";
    case SinkKind::resident:
      return "resident";
    case SinkKind::offload:
      return "offload";
    case SinkKind::reduce:
      return "reduce";
  }
  return "?";
}

const char* to_string(DispatchMode mode) noexcept {
  switch (mode) {
    case DispatchMode::automatic:
      return "automatic";
    case DispatchMode::master:
      return "master";
    case DispatchMode::pipelined:
      return "pipelined";
    case DispatchMode::direct:
      return "direct";
    case DispatchMode::sharded:
      return "sharded";
    case DispatchMode::chunked:
      return "chunked";
  }
  return "?";
}

bool RowSource::gives(std::size_t column) const {
  switch (kind) {
    case SourceKind::on_master:
    case SourceKind::on_host:
      return column < columns.size() && columns[column].given;
    case SourceKind::resident:
      return column < table_columns.size() && table_columns[column] >= 0;
    case SourceKind::generated:
      return column < generator.columns.size() && generator.columns[column] > 0;
  }
  return false;
}

RowSource resident(std::initializer_list<ResidentColumn> columns) {
  RowSource source;
  source.kind = SourceKind::resident;
  for (const ResidentColumn& column : columns) {
    source.table_columns.push_back(column.index);
    if (!column.table) continue;
    if (source.table && source.table != column.table)
      throw_usage("resident: the columns are of two results; all rows of a call come from one");
    source.table = column.table;
  }
  return source;
}

RowSource generated(RowGenerator generator) {
  RowSource source;
  source.kind = SourceKind::generated;
  source.generator = std::move(generator);
  return source;
}

RowSink to_master(std::initializer_list<RowOutput> columns) {
  RowSink sink;
  for (const RowOutput& column : columns) sink.memory.push_back(column.memory);
  return sink;
}

RowSink to_host(std::initializer_list<RowOutput> columns) {
  RowSink sink = to_master(columns);
  sink.kind = SinkKind::to_host;
  return sink;
}

RowSink left_resident() {
  RowSink sink;
  sink.kind = SinkKind::resident;
  return sink;
}

RowSink offload(RowHook hook, bool to_host_memory) {
  RowSink sink;
  sink.kind = SinkKind::offload;
  sink.hook = std::move(hook);
  sink.offload_host = to_host_memory;
  return sink;
}

RowSink reduce(RowReducer reducer) {
  RowSink sink;
  sink.kind = SinkKind::reduce;
  sink.reducer = std::move(reducer);
  return sink;
}

namespace {

std::int64_t rows_of_columns(const RowOperation& operation, const RowSource& source,
                             const DeviceSet& devices) {
  if (source.columns.size() != operation.inputs.size())
    throw Error(ErrorClass::internal, fmt::format("{}: {} input columns for {}", operation.name,
                                                  source.columns.size(), operation.inputs.size()));
  std::int64_t rows = -1;
  const std::string* first = nullptr;
  for (std::size_t c = 0; c < source.columns.size(); ++c) {
    const RowColumn& wanted = operation.inputs[c];
    const RowInput& given = source.columns[c];
    if (wanted.row_bytes == 0) continue;
    // A column may have several values a row.
    const std::int64_t slots = given.row_bytes == 0 ? 1 : wanted.row_bytes / given.row_bytes;
    if (given.rows % slots != 0)
      throw_usage(fmt::format("{}: {} has {} values, which is no multiple of {} a row", operation.name,
                              wanted.name, given.rows, slots));
    const std::int64_t count = given.rows / slots;
    if (rows < 0) {
      rows = count;
      first = &wanted.name;
    } else if (count != rows) {
      throw_usage(fmt::format("{}: {} has {} rows and does not match the ray batch size: {} has {}",
                              operation.name, wanted.name, count, *first, rows));
    }
    if (source.kind == SourceKind::on_host)
      require_on_host(given.data, operation.name, wanted.name);
    else
      require_on_master(devices, given.data, operation.name, wanted.name);
  }
  return rows < 0 ? 0 : rows;
}

/// What was made elsewhere has the operation's inputs, in its order: `bytes_of(c)` a row, for `given` of
/// them.
template <class BytesOf>
void require_columns(const RowOperation& operation, const std::string& origin, std::size_t given,
                     const BytesOf& bytes_of) {
  if (given > operation.inputs.size())
    throw_usage(fmt::format("{}: {} columns in {}, the operation has {} inputs", operation.name, given,
                            origin, operation.inputs.size()));
  for (std::size_t c = 0; c < operation.inputs.size(); ++c) {
    const RowColumn& wanted = operation.inputs[c];
    const std::uint32_t found = c < given ? bytes_of(c) : 0;
    if (wanted.row_bytes > 0 && found == 0)
      throw_usage(fmt::format("{}: {} is missing in {}", operation.name, wanted.name, origin));
    if (wanted.row_bytes > 0 && found != wanted.row_bytes)
      throw_usage(fmt::format("{}: {} needs {} bytes a row, in {} it has {}", operation.name, wanted.name,
                              wanted.row_bytes, origin, found));
  }
}

std::int64_t rows_of_table(const RowOperation& operation, const RowSource& source, const DeviceSet& devices) {
  if (!source.table)
    throw_usage(operation.name + ": the resident rows are empty (moved from, or never made)");
  for (const RowBlock& block : source.table->blocks) {
    if (block.device == RowBlock::on_host)
      throw_usage(operation.name + ": these rows were sent to host memory; pass their spans as on_host");
    if (block.device < 0 || block.device >= devices.size())
      throw_usage(fmt::format("{}: rows of device {} are no rows of this scene, which has {} devices",
                              operation.name, block.device, devices.size()));
  }
  require_columns(operation, "the resident rows", source.table_columns.size(), [&](std::size_t c) {
    const int column = source.table_columns[c];
    return column < 0 ? 0 : source.table->row_bytes[static_cast<std::size_t>(column)];
  });
  return source.table->rows;
}

std::int64_t rows_of_generator(const RowOperation& operation, const RowGenerator& generator) {
  if (generator.rows < 0 || !generator.make)
    throw_usage(fmt::format("{}: the generator '{}' makes {} rows", operation.name, generator.name,
                            generator.make ? generator.rows : 0));
  require_columns(operation, fmt::format("the generator '{}'", generator.name), generator.columns.size(),
                  [&](std::size_t c) { return generator.columns[c]; });
  return generator.rows;
}

void check_sink(const RowOperation& operation, const RowSink& sink, std::int64_t rows,
                const DeviceSet& devices) {
  if (sink.kind == SinkKind::offload && !sink.hook)
    throw_usage(operation.name + ": the sink 'offload' needs a function to call");
  if (sink.kind == SinkKind::reduce && (!sink.reducer.fold || !sink.reducer.merge))
    throw_usage(operation.name + ": the sink 'reduce' needs a reducer");
  if (sink.memory.empty()) return;
  if (sink.memory.size() > operation.outputs.size())
    throw_usage(fmt::format("{}: memory for {} output columns, it has {}", operation.name, sink.memory.size(),
                            operation.outputs.size()));
  if (sink.kind != SinkKind::to_master && sink.kind != SinkKind::to_host)
    throw_usage(
        fmt::format("{}: the sink '{}' takes no memory of the caller", operation.name, to_string(sink.kind)));
  for (std::size_t c = 0; c < sink.memory.size(); ++c) {
    const auto& memory = sink.memory[c];
    if (memory.data() == nullptr) continue;
    const RowColumn& column = operation.outputs[c];
    const auto needed = static_cast<std::uint64_t>(rows) * column.row_bytes;
    const std::string what = "output " + column.name;
    if (memory.size() < needed)
      throw_usage(fmt::format("{}: {} has {} bytes, {} rows need {}", operation.name, what, memory.size(),
                              rows, needed));
    if (sink.kind == SinkKind::to_host)
      require_on_host(memory.data(), operation.name, what);
    else
      require_on_master(devices, memory.data(), operation.name, what);
  }
}

}  // namespace

std::int64_t checked_rows(const RowOperation& operation, const RowSource& source, const RowSink& sink,
                          const DeviceSet& devices) {
  std::int64_t rows = 0;
  switch (source.kind) {
    case SourceKind::on_master:
    case SourceKind::on_host:
      rows = rows_of_columns(operation, source, devices);
      break;
    case SourceKind::resident:
      rows = rows_of_table(operation, source, devices);
      break;
    case SourceKind::generated:
      rows = rows_of_generator(operation, source.generator);
      break;
  }
  check_sink(operation, sink, rows, devices);
  return rows;
}

}  // namespace shardwise
