// Collectives and messages over MPI: non-blocking calls and waits that end (mpi_process.hpp).

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cluster/mpi_process.hpp"
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace shardwise {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 30;  // counts are ints
constexpr std::uint64_t piece_words = std::uint64_t{1} << 26;
/// Pieces of all ranks that are larger together are not moved before all have the memory for them.
constexpr std::uint64_t sure_bytes = std::uint64_t{1} << 24;
/// How long a message may still take once another rank has failed. What all ranks have come to move always
/// ends: nobody can fail there by itself, and who dies there is the watch's affair.
constexpr double message_grace_s = 0.2, no_grace = -1;

int count_of(std::uint64_t bytes) {
  return static_cast<int>(bytes);
}

/// One MPI communicator of our own. It is freed at the end where nothing can be under way in it. After a
/// failure, messages that nobody took may be: MPI would use the communicator's number again, and take one
/// that arrives late for the new one's. It is left to MPI's end then.
class OwnedComm {
 public:
  OwnedComm(MpiProcess& process, MPI_Comm parent) : process_(process) {
    MPI_Request request = MPI_REQUEST_NULL;
    process_.call("MPI_Comm_idup", [&] { return MPI_Comm_idup(parent, &comm_, &request); });
    process_.wait(std::span(&request, 1), -1);
    process_.call("MPI_Comm_set_errhandler",
                  [&] { return MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN); });
  }
  ~OwnedComm() {
    const FailureSignal& signal = *process_.signal();
    if (abandoned_ || std::uncaught_exceptions() > 0 || signal.agreed() != failures_ ||
        signal.failing_rank(-1) >= 0)
      return;
    process_.call("MPI_Comm_free", [&] { return MPI_Comm_free(&comm_); });
  }
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;
  MPI_Comm get() const { return comm_; }
  void abandon() { abandoned_ = true; }

 private:
  MpiProcess& process_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::int64_t failures_ = process_.signal()->agreed();  ///< before it
  bool abandoned_ = false;                               ///< calls were given up in it
};

class MpiMessage final : public RankMessage {
 public:
  MpiMessage(std::shared_ptr<MpiProcess> process, std::shared_ptr<OwnedComm> comm, std::string_view what,
             int peer, bool receive)
      : process_(std::move(process)), comm_(std::move(comm)), what_(what), peer_(peer), receive_(receive) {}
  ~MpiMessage() override {
    if (next_ >= requests_.size()) return;
    try {
      // An exception destroys it before the others know of any failure: the message may never come.
      if (std::uncaught_exceptions() > exceptions_)
        drop_rest();
      else
        wait();
    } catch (...) {  // said by wait() to whoever calls it; here it is over either way
    }
  }
  void start(MPI_Comm comm, std::byte* bytes, std::uint64_t size, int tag) {
    for (std::uint64_t begin = 0; begin < size || begin == 0; begin += piece_bytes) {
      const std::uint64_t piece = std::min(piece_bytes, size - begin);
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      sizes_.push_back(piece);
      process_->call(receive_ ? "MPI_Irecv" : "MPI_Isend", [&] {
        return receive_ ? MPI_Irecv(bytes + begin, count_of(piece), MPI_BYTE, peer_, tag, comm, &request)
                        : MPI_Isend(bytes + begin, count_of(piece), MPI_BYTE, peer_, tag, comm, &request);
      });
    }
  }
  bool test() override {
    for (; next_ < requests_.size(); ++next_) {
      int done = 0;
      MPI_Status status;
      int code = MPI_SUCCESS;
      process_->call("MPI_Test", [&] {
        code = MPI_Test(&requests_[next_], &done, &status);
        int error_class = MPI_SUCCESS;
        if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
        return error_class == MPI_ERR_TRUNCATE ? MPI_SUCCESS : code;
      });
      int size = 0;
      if (code == MPI_SUCCESS) {
        if (done == 0) return false;
        if (!receive_) continue;
        process_->call("MPI_Get_count", [&] { return MPI_Get_count(&status, MPI_BYTE, &size); });
        if (static_cast<std::uint64_t>(size) == sizes_[next_]) continue;
      }
      ++next_;
      drop_rest();
      throw Error(
          ErrorClass::internal,
          fmt::format("message '{}': rank {} sent {} bytes than the {} that are expected; both sides have "
                      "to give the same size",
                      what_, peer_, code == MPI_SUCCESS ? "fewer" : "more",
                      std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0})));
    }
    return true;
  }
  void wait() override {
    if (test()) return;
    const MpiProcess::MessageWait waiting(*process_, what_, peer_, receive_);
    if (process_->wait_until([this] { return test(); }, message_grace_s)) return;
    drop_rest();
    throw DependencyError(fmt::format("message '{}' {} rank {} was given up, because a rank failed", what_,
                                      receive_ ? "from" : "to", peer_));
  }

 private:
  /// The memory is the caller's again. What is received is called off, or ends where it has begun. Nobody can
  /// call off what is sent: it leaves if somebody takes it soon, else this communicator is not to be freed.
  void drop_rest() {
    const std::span<MPI_Request> rest = std::span(requests_).subspan(next_);
    next_ = requests_.size();
    if (rest.empty()) return;
    if (receive_)
      for (MPI_Request& request : rest)
        process_->call("MPI_Cancel",
                       [&] { return request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Cancel(&request); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    bool ended = false;
    process_->wait_until(
        [&] {
          int done = 0;
          process_->call("MPI_Testall", [&] {
            // One that was called off, or is of another size, is at its end as well.
            (void)MPI_Testall(static_cast<int>(rest.size()), rest.data(), &done, MPI_STATUSES_IGNORE);
            return MPI_SUCCESS;
          });
          ended = done != 0;
          return ended || (!receive_ && std::chrono::steady_clock::now() > until);
        },
        no_grace);
    if (!ended) comm_->abandon();
  }

  std::shared_ptr<MpiProcess> process_;
  std::shared_ptr<OwnedComm> comm_;
  std::string what_;
  int peer_;
  bool receive_;
  int exceptions_ = std::uncaught_exceptions();
  std::size_t next_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<std::uint64_t> sizes_;
};

class MpiCommunicator final : public Communicator {
 public:
  /// `root`: the communicator that this one is a duplicate of; null: there is none.
  MpiCommunicator(std::shared_ptr<MpiProcess> process, std::shared_ptr<MpiCommunicator> root)
      : Communicator(process->rank(), process->size()),
        process_(std::move(process)),
        root_(std::move(root)),
        headers_(*process_, root_ ? root_->headers_.get() : MPI_COMM_WORLD),
        data_(*process_, headers_.get()),
        messages_(std::make_shared<OwnedComm>(*process_, headers_.get())) {}

  std::string name() const override { return process_->library(); }
  int local_rank() const override { return process_->local_rank(); }
  int local_size() const override { return process_->local_size(); }
  bool takes_device_memory() const override {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
  }
  std::string host(int rank) const override {
    return process_->host(rank);
  }

  std::unique_ptr<RankMessage> send(std::span<const std::byte> bytes, int target, int tag,
                                    std::string_view what) override {
    return message(const_cast<std::byte*>(bytes.data()), bytes.size(), target, tag, what, false);
  }
  std::unique_ptr<RankMessage> receive(std::span<std::byte> bytes, int source, int tag,
                                       std::string_view what) override {
    return message(bytes.data(), bytes.size(), source, tag, what, true);
  }
  std::shared_ptr<Communicator> duplicate(std::string_view what) override {
    entered(what);
    Header mine;
    mine.call = Call::duplicate;
    try {
      enter(mine, what);
      auto copy = std::make_shared<MpiCommunicator>(
          process_, root_ ? root_ : std::static_pointer_cast<MpiCommunicator>(self_.lock()));
      left();
      return copy;
    } catch (...) {
      left();
      throw;
    }
  }
  void set_step(std::string_view step) override {
    process_->set_step(step);
  }
  std::shared_ptr<const FailureSignal> failure_signal() const override {
    return process_->signal();
  }
  [[noreturn]] void abort(const std::string& text, int exit_code) override {
    process_->end_run(text, exit_code);
  }
  void set_self(const std::shared_ptr<MpiCommunicator>& self) {
    self_ = self;
  }

 protected:
  std::vector<Header> exchange_headers(const Header& given) override {
    // Both are kept where the wait is given up: MPI may still read and write there.
    auto mine = std::make_unique<Header>(given);
    mine->broken = broken_ ? 1 : 0;
    std::vector<Header> headers(static_cast<std::size_t>(size()));
    MPI_Request request = MPI_REQUEST_NULL;
    process_->call("MPI_Iallgather", [&] {
      return MPI_Iallgather(mine.get(), sizeof(Header), MPI_BYTE, headers.data(), sizeof(Header), MPI_BYTE,
                            headers_.get(), &request);
    });
    // Whoever fails answers the root's headers, so there the wait ends by itself.
    if (!process_->wait(std::span(&request, 1), root_ ? message_grace_s : no_grace)) {
      kept_header_ = std::move(mine);
      kept_headers_ = std::move(headers);
      give_up();
    }
    process_->set_state(MpiProcess::State::moving, what_);
    return headers;
  }
  void move_broadcast(std::span<std::byte> bytes, int root) override {
    broadcast_over(data_, bytes, root);
  }
  void move_failure(std::span<std::byte> bytes, int root) override {
    broadcast_over(headers_, bytes, root);
  }
  void move_reduce(std::span<std::int64_t> values, Fold fold, int root) override {
    const MPI_Op operation = fold == Fold::sum ? MPI_SUM : fold == Fold::min ? MPI_MIN : MPI_MAX;
    // Sums wrap around, which unsigned words may.
    const MPI_Datatype type = fold == Fold::sum ? MPI_UINT64_T : MPI_INT64_T;
    for (std::uint64_t begin = 0; begin < values.size(); begin += piece_words) {
      std::int64_t* piece = values.data() + begin;
      const int count = count_of(std::min<std::uint64_t>(piece_words, values.size() - begin));
      MPI_Request request = MPI_REQUEST_NULL;
      process_->call("MPI_Ireduce", [&] {
        if (root < 0)
          return MPI_Iallreduce(MPI_IN_PLACE, piece, count, type, operation, data_.get(), &request);
        if (root == rank())
          return MPI_Ireduce(MPI_IN_PLACE, piece, count, type, operation, root, data_.get(), &request);
        return MPI_Ireduce(piece, nullptr, count, type, operation, root, data_.get(), &request);
      });
      finish(std::span(&request, 1));
    }
  }
  std::vector<std::vector<std::byte>> move_gather(std::span<const std::byte> bytes,
                                                  const std::vector<std::uint64_t>& sizes,
                                                  int root) override {
    std::vector<std::vector<std::byte>> all;
    std::uint64_t total = 0;  // more than there is counts as what it is
    for (const std::uint64_t size : sizes)
      total = size > ~total ? std::numeric_limits<std::uint64_t>::max() : total + size;
    take_memory(total > sure_bytes, total, [&] {
      if (root < 0 || root == rank())
        for (const std::uint64_t size : sizes) all.emplace_back(size);
    });
    if (root >= 0) {
      std::vector<MPI_Request> requests;
      if (root == rank()) {
        std::ranges::copy(bytes, all[static_cast<std::size_t>(root)].begin());
        for (int r = 0; r < size(); ++r)
          if (r != root) post(requests, all[static_cast<std::size_t>(r)], r, true);
      } else {
        post(requests, std::span(const_cast<std::byte*>(bytes.data()), bytes.size()), root, false);
      }
      finish(requests);
      return all;
    }
    std::ranges::copy(bytes, all[static_cast<std::size_t>(rank())].begin());
    for (int r = 0; r < size(); ++r) broadcast_over(data_, all[static_cast<std::size_t>(r)], r);
    return all;
  }
  std::vector<std::vector<std::byte>> move_exchange(
      const std::vector<std::vector<std::byte>>& outgoing) override {
    std::vector<std::uint64_t> out, in(outgoing.size());
    for (const std::vector<std::byte>& piece : outgoing) out.push_back(piece.size());
    MPI_Request request = MPI_REQUEST_NULL;
    process_->call("MPI_Ialltoall", [&] {
      return MPI_Ialltoall(out.data(), 1, MPI_UINT64_T, in.data(), 1, MPI_UINT64_T, data_.get(), &request);
    });
    finish(std::span(&request, 1));
    std::vector<std::vector<std::byte>> incoming;
    std::vector<MPI_Request> requests;
    // Ranks know their own sizes only: whether it is much is said by none alone.
    take_memory(true, std::accumulate(in.begin(), in.end(), std::uint64_t{0}), [&] {
      for (const std::uint64_t size : in) incoming.emplace_back(size);
    });
    for (int r = 0; r < size(); ++r)
      if (r != rank()) post(requests, incoming[static_cast<std::size_t>(r)], r, true);
    for (int r = 0; r < size(); ++r) {
      const std::vector<std::byte>& piece = outgoing[static_cast<std::size_t>(r)];
      if (r != rank())
        post(requests, std::span(const_cast<std::byte*>(piece.data()), piece.size()), r, false);
    }
    incoming[static_cast<std::size_t>(rank())] = outgoing[static_cast<std::size_t>(rank())];
    finish(requests);
    return incoming;
  }
  void announce_failure() override {
    process_->announce_failure();
  }
  void failure_was_agreed() override {
    process_->failure_was_agreed();
    // What was sent before the failure and not taken is for nobody any more. All ranks are here, in step.
    auto fresh = std::make_shared<OwnedComm>(*process_, headers_.get());
    const std::lock_guard lock(messages_mutex_);
    messages_.swap(fresh);
  }
  Communicator& root_communicator() override {
    return root_ ? *root_ : *this;
  }
  void entered(std::string_view what) override {
    what_ = what;
    process_->set_state(MpiProcess::State::waiting, what_);
  }
  void left() override {
    process_->set_state(MpiProcess::State::computing, {});
  }

 private:
  std::unique_ptr<RankMessage> message(std::byte* bytes, std::uint64_t size, int peer, int tag,
                                       std::string_view what, bool receive) {
    if (peer < 0 || peer >= this->size())
      throw_usage(fmt::format("message '{}': there is no rank {}, the ranks are 0 to {}", what, peer,
                              this->size() - 1));
    if (tag < 0 || tag > 32767)
      throw_usage(fmt::format("message '{}': the tag {} must be 0 to 32767", what, tag));
    count(what, receive ? 0 : size, receive ? size : 0, 0);
    const std::shared_ptr<OwnedComm> comm = [this] {
      const std::lock_guard lock(messages_mutex_);
      return messages_;
    }();
    auto started = std::make_unique<MpiMessage>(process_, comm, what, peer, receive);
    started->start(comm->get(), bytes, size, tag);
    return started;
  }
  void broadcast_over(OwnedComm& comm, std::span<std::byte> bytes, int root) {
    for (std::uint64_t begin = 0; begin < bytes.size(); begin += piece_bytes) {
      const int count = count_of(std::min(piece_bytes, bytes.size() - begin));
      MPI_Request request = MPI_REQUEST_NULL;
      process_->call("MPI_Ibcast", [&] {
        return MPI_Ibcast(bytes.data() + begin, count, MPI_BYTE, root, comm.get(), &request);
      });
      finish(std::span(&request, 1));
    }
  }
  /// Pieces of one array to or from a rank, in order.
  void post(std::vector<MPI_Request>& requests, std::span<std::byte> bytes, int peer, bool receive) {
    for (std::uint64_t begin = 0; begin < bytes.size(); begin += piece_bytes) {
      const int count = count_of(std::min(piece_bytes, bytes.size() - begin));
      MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
      process_->call(receive ? "MPI_Irecv" : "MPI_Isend", [&] {
        return receive ? MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, peer, 0, data_.get(), &request)
                       : MPI_Isend(bytes.data() + begin, count, MPI_BYTE, peer, 0, data_.get(), &request);
      });
    }
  }
  void finish(std::span<MPI_Request> requests) {
    (void)process_->wait(requests, no_grace);
  }
  /// Calls take(), which gets this rank the memory of the bytes that come. Where that is much, on all ranks
  /// alike, one that cannot have it says so before anything moves.
  template <class Take>
  void take_memory(bool is_much, std::uint64_t bytes, Take&& take) {
    if (!is_much) return take();
    int mine = 1, all = 1;
    try {
      take();
    } catch (const std::bad_alloc&) {
      mine = 0;
    } catch (const std::length_error&) {
      mine = 0;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    process_->call("MPI_Iallreduce",
                   [&] { return MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, data_.get(), &request); });
    finish(std::span(&request, 1));
    if (mine == 0)
      throw Error(
          ErrorClass::memory,
          fmt::format("'{}': no memory for the {} bytes that the other ranks send here", what_, bytes));
    if (all == 0) throw DependencyError(fmt::format("'{}': another rank has no memory for it", what_));
  }
  /// A rank failed while this one was in a collective of a duplicate that it will not come to.
  [[noreturn]] void give_up() {
    broken_ = true;
    data_.abandon();
    headers_.abandon();
    static_cast<MpiCommunicator&>(root_communicator()).join_failure();
  }

  std::shared_ptr<MpiProcess> process_;
  std::shared_ptr<MpiCommunicator> root_;
  std::weak_ptr<MpiCommunicator> self_;
  OwnedComm headers_;  ///< all ranks are in step here, failures included
  OwnedComm data_;
  std::mutex messages_mutex_;
  std::shared_ptr<OwnedComm> messages_;
  std::unique_ptr<Header> kept_header_;  ///< of a wait that was given up
  std::vector<Header> kept_headers_;
  std::string what_;
  bool broken_ = false;
};

}  // namespace

std::shared_ptr<Communicator> mpi_world(const MpiOptions& options) {
  auto world = std::make_shared<MpiCommunicator>(std::make_shared<MpiProcess>(options), nullptr);
  world->set_self(world);
  return world;
}

}  // namespace shardwise
