#pragma once
// From a call on rows to a typed answer.

#include <memory>
#include <utility>

#include "shardwise/dispatch/rows.hpp"
#include "shardwise/runtime/pending.hpp"

namespace shardwise {

/// What every typed answer has beside its columns: a RowResult without the table. Columns of an answer whose
/// rows went elsewhere (offload, reduce, plan_only) do not exist.
struct RowAnswer : RowResult {
  RowAnswer() = default;
  explicit RowAnswer(RowResult result) : RowResult(std::move(result)) {}

 protected:
  template <class T>
  Column<T> column_of(int index, int slots = 1) const {
    return table ? Column<T>(table, index, slots) : Column<T>();
  }
};

/// Options of an operation on rows beside its own.
struct RowCallOptions : RowOptions {
  RowSink sink;  ///< where results go; the master's memory by default
};

/// A pending call as a pending answer.
template <class Answer, class... Arguments>
Pending<Answer> pending_answer(Pending<RowResult> call, Arguments... arguments) {
  auto inner = std::make_shared<Pending<RowResult>>(std::move(call));
  return Pending<Answer>([inner, arguments...] { return Answer(inner->get(), arguments...); });
}

}  // namespace shardwise
