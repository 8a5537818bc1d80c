#include "grid/pointwise.hpp"

#include <algorithm>

#include "grid/cell_shell.hpp"
#include "grid/halo_exchange.hpp"
#include "runtime/for_each.hpp"

namespace shardwise {

template <class T>
void enqueue_set_all(OperationQueue& queue, Stream& stream, const QueuedBuffer<T>& buffer, T value) {
  Operation operation;
  operation.name = "set";
  operation.accesses = {buffer.writes()};
  operation.items = buffer.size();
  operation.body = [body = SetBody<T>{buffer.data(), value}, count = buffer.size()](LaunchContext& context) {
    for_each(context, count, body, 1 << 16);
  };
  queue.enqueue(stream, std::move(operation));
}

template <class T>
void launch_scale(LaunchContext& context, const BlockRef<T>& y, const BlockRef<T>& x, const T* field, T alpha,
                  T beta) {
  const auto run = [&](auto reads) {
    ScaleBody<T, decltype(reads)::value> body{{x.layout.stride[1], x.layout.stride[2]},
                                              {y.layout.stride[1], y.layout.stride[2]},
                                              x.cell,
                                              y.cell,
                                              field,
                                              alpha,
                                              beta};
    for_each_cell(context, owned_box(x.layout), body);
  };
  beta == T(0) ? run(std::false_type{}) : run(std::true_type{});
}

template <class T>
void enqueue_axpby(const Blocks& blocks, FieldStorage<T>& y, const FieldStorage<T>& x, T alpha, T beta) {
  BlocksState& state = blocks.state();
  for (std::size_t p = 0; p < y.local.size(); ++p) {
    const FieldBlock<T>& to = y.local[p];
    const FieldBlock<T>& from = x.local[p];
    Operation operation;
    operation.name = "axpby";
    operation.accesses = {from.owned(AccessMode::read), to.owned(AccessMode::write)};
    operation.items = from.layout.cells[0] * from.layout.cells[1] * from.layout.cells[2];
    operation.body = [to = to.ref(), from = from.ref(), alpha, beta](LaunchContext& context) {
      launch_scale<T>(context, to, from, nullptr, alpha, beta);
    };
    state.queue.enqueue(state.transport->compute(to.part), std::move(operation));
  }
}

template <class T>
void enqueue_blend_shell(const Blocks& blocks, FieldStorage<T>& y, const FieldStorage<T>& z, T alpha,
                         T beta) {
  BlocksState& state = blocks.state();
  for (std::size_t p = 0; p < y.local.size(); ++p) {
    const FieldBlock<T>& to = y.local[p];
    const FieldBlock<T>& from = z.local[p];
    BlendShellBody<T> body{{from.layout.stride[1], from.layout.stride[2]},
                           {to.layout.stride[1], to.layout.stride[2]},
                           from.cell(),
                           to.cell(),
                           alpha,
                           beta,
                           {}};
    body.deep = deep_cells(blocks.local_grid(to.part), from.layout);
    Operation operation;
    operation.name = "blend shell";
    operation.accesses = {from.owned(AccessMode::read), to.owned(AccessMode::write)};
    const CellShell shell(owned_box(from.layout), body.deep.box());
    operation.items = shell.count();
    operation.body = [body, shell](LaunchContext& context) { for_each_cell_of_shell(context, shell, body); };
    state.queue.enqueue(state.transport->compute(to.part), std::move(operation));
  }
}

#define SW_INSTANTIATE(T)                                                                           \
  template void enqueue_set_all(OperationQueue&, Stream&, const QueuedBuffer<T>&, T);               \
  template void enqueue_axpby(const Blocks&, FieldStorage<T>&, const FieldStorage<T>&, T, T);       \
  template void enqueue_blend_shell(const Blocks&, FieldStorage<T>&, const FieldStorage<T>&, T, T); \
  template void launch_scale(LaunchContext&, const BlockRef<T>&, const BlockRef<T>&, const T*, T, T)
SW_INSTANTIATE(float);
SW_INSTANTIATE(double);

}  // namespace shardwise
