#include "shardwise/cluster/communicator.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace shardwise {
namespace {

constexpr std::uint64_t any_size = std::numeric_limits<std::uint64_t>::max();

/// FNV-1a, 64 bits (Fowler, Noll, Vo): only to tell whether texts are equal.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

template <class T, class Header>
T value_in(const Header& header, std::size_t index) {
  T value;
  std::memcpy(&value, header.data + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

class Communicator::Timing {
 public:
  explicit Timing(Communicator& ranks, std::string_view what) : ranks_(ranks), start_(Clock::now()) {
    ranks_.entered(what);
  }
  ~Timing() { ranks_.left(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Communicator& ranks_;
  Clock::time_point start_;
};

void Communicator::count(std::string_view what, std::uint64_t bytes_out, std::uint64_t bytes_in,
                         double waited_s, std::int64_t calls) {
  const std::lock_guard lock(traffic_mutex_);
  auto entry = std::ranges::find(traffic_, what, &RankTraffic::what);
  if (entry == traffic_.end()) entry = traffic_.insert(entry, RankTraffic{std::string(what), 0, 0, 0, 0});
  entry->calls += calls;
  entry->bytes_out += bytes_out;
  entry->bytes_in += bytes_in;
  entry->waited_s += waited_s;
}

std::vector<RankTraffic> Communicator::traffic() const {
  const std::lock_guard lock(traffic_mutex_);
  return traffic_;
}

std::vector<Communicator::Header> Communicator::enter(Header mine, std::string_view what) {
  mine.sequence = ++sequence_;
  what.copy(mine.what, sizeof mine.what - 1);
  std::vector<Header> headers = exchange_headers(mine);
  if (std::ranges::any_of(headers, [](const Header& header) { return header.failed != 0; }))
    throw_failure(headers, {});
  if (const auto broken = std::ranges::find(headers, 1, &Header::broken); broken != headers.end())
    throw RankError(
        ErrorClass::state,
        fmt::format("'{}': rank {} gave up an earlier collective when another failed; no more of them "
                    "are possible, end the run",
                    what, broken - headers.begin()),
        static_cast<int>(broken - headers.begin()), shardwise::exit_code(ErrorClass::state));
  check_order(headers);
  return headers;
}

void Communicator::check_order(const std::vector<Header>& headers) const {
  const Header& first = headers.front();
  const auto text = [](const Header& header) {
    static constexpr const char* names[] = {"barrier",    "broadcast", "reduce", "gather",
                                            "gather_all", "exchange",  "agree",  "duplicate"};
    std::string line = fmt::format("{} '{}' (collective {}", names[static_cast<int>(header.call)],
                                   header.what, header.sequence);
    if (header.root >= 0) line += fmt::format(", root {}", header.root);
    if (header.bytes != any_size && header.call != Call::gather && header.call != Call::gather_all)
      line += fmt::format(", {} bytes", header.bytes);
    return line + ")";
  };
  const bool sized = first.call != Call::gather && first.call != Call::gather_all;
  for (std::size_t r = 1; r < headers.size(); ++r) {
    const Header& other = headers[r];
    const bool same = other.sequence == first.sequence && other.call == first.call &&
                      other.fold == first.fold && other.words == first.words && other.root == first.root &&
                      std::strncmp(other.what, first.what, sizeof first.what) == 0 &&
                      (!sized || other.bytes == first.bytes);
    if (same) continue;
    throw RankError(
        ErrorClass::internal,
        fmt::format("the ranks are in different collectives: rank 0 in {}, rank {} in {}; every rank "
                    "has to call the same ones, in the same order and with the same sizes",
                    text(first), r, text(other)),
        -1, shardwise::exit_code(ErrorClass::internal));
  }
}

void Communicator::throw_failure(const std::vector<Header>& headers, const std::string& own_text) {
  // The lowest rank that failed by itself; consequences count where there is no cause.
  auto cause = std::ranges::find(headers, 1, &Header::failed);
  if (cause == headers.end()) cause = std::ranges::find(headers, 2, &Header::failed);
  const int cause_rank = static_cast<int>(cause - headers.begin());
  std::string text = own_text;
  if (cause_rank != rank_) text.assign(cause->bytes, ' ');
  move_failure(std::as_writable_bytes(std::span(text)), cause_rank);
  failure_was_agreed();
  const bool everybody = std::ranges::all_of(headers, [&](const Header& header) {
    return header.failed != 0 && header.text_hash == cause->text_hash &&
           header.error_class == cause->error_class;
  });
  if (!everybody) text = fmt::format("rank {}: {}", cause_rank, text);
  throw RankError(static_cast<ErrorClass>(cause->error_class), text, cause_rank, cause->exit_code);
}

void Communicator::fail(const Error& error, int exit_code) {
  if (const auto* agreed = dynamic_cast<const RankError*>(&error)) throw RankError(*agreed);
  Communicator& root = root_communicator();
  if (&root != this) root.fail(error, exit_code);
  const std::string text = error.what();
  Header mine;
  mine.failed = dynamic_cast<const DependencyError*>(&error) ? 2 : 1;
  mine.sequence = ++sequence_;
  mine.bytes = text.size();
  mine.text_hash = hash_of(text);
  mine.error_class = static_cast<std::int32_t>(error.error_class());
  mine.exit_code = exit_code >= 0 ? exit_code : shardwise::exit_code(error.error_class());
  const Timing timing(*this, "an error: " + text);
  announce_failure();
  throw_failure(exchange_headers(mine), text);
}

void Communicator::join_failure() {
  Header mine;  // whoever fails has a header that says so: nothing of this one is looked at
  mine.sequence = ++sequence_;
  const std::vector<Header> headers = exchange_headers(mine);
  if (std::ranges::none_of(headers, [](const Header& header) { return header.failed != 0; }))
    throw RankError(ErrorClass::internal,
                    "a rank announced an error and then did not give it; please report this", -1,
                    shardwise::exit_code(ErrorClass::internal));
  throw_failure(headers, {});
}

void Communicator::check_root(int root, std::string_view what) const {
  if (root >= size_ || root < -1)
    throw_usage(fmt::format("'{}': the root is rank {}, but the ranks are 0 to {}", what, root, size_ - 1));
}

void Communicator::barrier(std::string_view what) {
  const Timing timing(*this, what);
  enter({}, what);
  count(what, 0, 0, timing.seconds());
}

void Communicator::broadcast(std::span<std::byte> bytes, int root, std::string_view what) {
  check_root(root, what);
  if (root < 0) throw_usage(fmt::format("'{}': a broadcast has a root, but {} was given", what, root));
  const Timing timing(*this, what);
  Header mine;
  mine.call = Call::broadcast;
  mine.root = root;
  mine.bytes = bytes.size();
  const bool small = bytes.size() <= inline_bytes;
  if (small && rank_ == root && !bytes.empty()) std::memcpy(mine.data, bytes.data(), bytes.size());
  const std::vector<Header> headers = enter(mine, what);
  if (small) {
    if (!bytes.empty())
      std::memcpy(bytes.data(), headers.at(static_cast<std::size_t>(root)).data, bytes.size());
  } else if (size_ > 1) {
    move_broadcast(bytes, root);
  }
  if (size_ > 1)
    count(what, rank_ == root ? bytes.size() : 0, rank_ == root ? 0 : bytes.size(), timing.seconds());
}

void Communicator::broadcast(std::vector<std::byte>& bytes, int root, std::string_view what) {
  std::uint64_t size = bytes.size();
  broadcast_value(size, root, what);
  if (rank_ != root) bytes.resize(size);
  broadcast(std::span(bytes), root, what);
}

void Communicator::broadcast(std::string& text, int root, std::string_view what) {
  std::uint64_t size = text.size();
  broadcast_value(size, root, what);
  if (rank_ != root) text.resize(size);
  broadcast(std::as_writable_bytes(std::span(text)), root, what);
}

void Communicator::fold_integers(std::span<std::int64_t> values, Fold fold, int root, std::string_view what) {
  check_root(root, what);
  const Timing timing(*this, what);
  Header mine;
  mine.call = Call::reduce;
  mine.fold = fold;
  mine.words = Words::integers;
  mine.root = root;
  mine.bytes = values.size_bytes();
  const bool small = values.size_bytes() <= inline_bytes;
  if (small && !values.empty()) std::memcpy(mine.data, values.data(), values.size_bytes());
  const std::vector<Header> headers = enter(mine, what);
  if (size_ == 1) return;
  if (!small) {
    move_reduce(values, fold, root);
  } else if (root < 0 || root == rank_) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t total = value_in<std::int64_t>(headers.front(), i);
      for (std::size_t r = 1; r < headers.size(); ++r) {
        const auto next = value_in<std::int64_t>(headers[r], i);
        total = fold == Fold::sum   ? static_cast<std::int64_t>(static_cast<std::uint64_t>(total) +
                                                              static_cast<std::uint64_t>(next))
                : fold == Fold::min ? std::min(total, next)
                                    : std::max(total, next);
      }
      values[i] = total;
    }
  }
  const std::uint64_t bytes = values.size_bytes();
  count(what, root < 0 || rank_ != root ? bytes : 0, root < 0 || rank_ == root ? bytes : 0, timing.seconds());
}

void Communicator::fold_doubles(std::span<double> values, Fold fold, std::string_view what) {
  const Timing timing(*this, what);
  Header mine;
  mine.call = Call::reduce;
  mine.fold = fold;
  mine.words = Words::reals;
  mine.bytes = values.size_bytes();
  const bool small = values.size_bytes() <= inline_bytes;
  if (small && !values.empty()) std::memcpy(mine.data, values.data(), values.size_bytes());
  const std::vector<Header> headers = enter(mine, what);
  if (size_ == 1) return;
  std::vector<std::vector<std::byte>> all;
  if (!small)
    all = move_gather(std::as_bytes(values),
                      std::vector<std::uint64_t>(static_cast<std::size_t>(size_), values.size_bytes()), -1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double total = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
      double next;
      std::memcpy(&next, (small ? headers[r].data : all[r].data()) + i * sizeof next, sizeof next);
      total = r == 0              ? next
              : fold == Fold::sum ? total + next
              : fold == Fold::min ? std::min(total, next)
                                  : std::max(total, next);
    }
    values[i] = total;
  }
  count(what, values.size_bytes(), values.size_bytes() * static_cast<std::uint64_t>(size_ - 1),
        timing.seconds());
}

void Communicator::sum(std::span<std::int64_t> values, std::string_view what) {
  fold_integers(values, Fold::sum, -1, what);
}
void Communicator::min(std::span<std::int64_t> values, std::string_view what) {
  fold_integers(values, Fold::min, -1, what);
}
void Communicator::max(std::span<std::int64_t> values, std::string_view what) {
  fold_integers(values, Fold::max, -1, what);
}
void Communicator::sum(std::span<double> values, std::string_view what) {
  fold_doubles(values, Fold::sum, what);
}
void Communicator::min(std::span<double> values, std::string_view what) {
  fold_doubles(values, Fold::min, what);
}
void Communicator::max(std::span<double> values, std::string_view what) {
  fold_doubles(values, Fold::max, what);
}
void Communicator::sum_to(int root, std::span<std::int64_t> values, std::string_view what) {
  fold_integers(values, Fold::sum, root, what);
}

std::vector<std::vector<std::byte>> Communicator::gather(std::span<const std::byte> bytes, int root,
                                                         std::string_view what) {
  check_root(root, what);
  const Timing timing(*this, what);
  Header mine;
  mine.call = root < 0 ? Call::gather_all : Call::gather;
  mine.root = root;
  mine.bytes = bytes.size();
  const bool fits = bytes.size() <= inline_bytes;
  if (fits && !bytes.empty()) std::memcpy(mine.data, bytes.data(), bytes.size());
  const std::vector<Header> headers = enter(mine, what);
  std::vector<std::uint64_t> sizes;
  std::uint64_t others = 0;
  for (const Header& header : headers) sizes.push_back(header.bytes);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) others += sizes[static_cast<std::size_t>(r)];
  const bool here = root < 0 || root == rank_;
  std::vector<std::vector<std::byte>> all;
  if (std::ranges::all_of(sizes, [](std::uint64_t size) { return size <= inline_bytes; })) {
    if (here)
      for (const Header& header : headers) all.emplace_back(header.data, header.data + header.bytes);
  } else if (size_ == 1) {
    all.emplace_back(bytes.begin(), bytes.end());
  } else {
    all = move_gather(bytes, sizes, root);
  }
  if (size_ > 1) count(what, root == rank_ ? 0 : bytes.size(), here ? others : 0, timing.seconds());
  return all;
}

std::vector<std::vector<std::byte>> Communicator::gather_all(std::span<const std::byte> bytes,
                                                             std::string_view what) {
  return gather(bytes, -1, what);
}

std::vector<std::string> Communicator::gather_text(const std::string& text, int root, std::string_view what) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : gather(std::as_bytes(std::span(text)), root, what))
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

std::vector<std::vector<std::byte>> Communicator::exchange(
    const std::vector<std::vector<std::byte>>& outgoing, std::string_view what) {
  if (outgoing.size() != static_cast<std::size_t>(size_))
    throw_usage(
        fmt::format("exchange '{}': {} pieces were given for {} ranks; give one for each (an empty one "
                    "where there is nothing to send)",
                    what, outgoing.size(), size_));
  const Timing timing(*this, what);
  Header mine;
  mine.call = Call::exchange;
  enter(mine, what);
  std::vector<std::vector<std::byte>> incoming = size_ == 1 ? outgoing : move_exchange(outgoing);
  std::uint64_t out = 0, in = 0;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    out += outgoing[static_cast<std::size_t>(r)].size();
    in += incoming[static_cast<std::size_t>(r)].size();
  }
  if (size_ > 1) count(what, out, in, timing.seconds());
  return incoming;
}

bool Communicator::agree(bool yes, std::string_view what) {
  const Timing timing(*this, what);
  Header mine;
  mine.call = Call::agree;
  mine.data[0] = static_cast<std::byte>(yes);
  const std::vector<Header> headers = enter(mine, what);
  count(what, 0, 0, timing.seconds());
  return std::ranges::all_of(headers, [](const Header& header) { return header.data[0] != std::byte{0}; });
}

}  // namespace shardwise
