/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct.cuh: the kernels of cuda_direct.h, as templates of a type; each cuda_direct_*.cu makes those of
 * one.
 *
 * The operation and the shape are looked up for each vector: links between devices are slower than that, and
 * a kernel for each operation would make the plugin twice as large. A rank multiplies its operand by its
 * factor before it sends it, so that nobody else needs to know the factor. */
#ifndef TT_KERNELS_CUDA_DIRECT_CUH
#define TT_KERNELS_CUDA_DIRECT_CUH
#include "kernels/cuda/cuda_fused.cuh"
#include "kernels/cuda/cuda_meet.cuh"

/* --- What is folded, and how. */

template <class Sum, class Prod, class Max, class Min> struct float_operations {
    enum { MOVES = 0 };
    template <class Number>
    static MEMBER struct wide combined(Number number, uint32_t row, struct wide left, struct wide right)
    {
        switch (row) {
        case TT_ROW_SUM:
            return ::combined<Sum>(number, left, right);
        case TT_ROW_PROD:
            return ::combined<Prod>(number, left, right);
        case TT_ROW_MAX:
            return ::combined<Max>(number, left, right);
        default:
            return ::combined<Min>(number, left, right);
        }
    }
    template <class Number> static MEMBER vec product(Number number, vec raw, uint64_t factor)
    {
        const struct wide by = Number::widen(in_all_lanes<typename Number::element>(factor));
        return stored(number, ::combined<Prod>(number, Number::widen(raw), by));
    }
};
template <class Sum, class Prod, class Max, class Min>
struct integer_operations : float_operations<Sum, Prod, Max, Min> {
    template <class Number>
    static MEMBER struct wide combined(Number number, uint32_t row, struct wide left, struct wide right)
    {
        switch (row) {
        case TT_ROW_AND:
            return ::combined<and_bits_of_lanes>(number, left, right);
        case TT_ROW_OR:
            return ::combined<or_bits_of_lanes>(number, left, right);
        case TT_ROW_XOR:
            return ::combined<xor_bits_of_lanes>(number, left, right);
        default:
            return float_operations<Sum, Prod, Max, Min>::combined(number, row, left, right);
        }
    }
};

template <class Number> INLINE Number number_of(const tt_direct_params &)
{
    return Number();
}

/* A chain is kept in `sum`, without being rounded; a tree as tree_of keeps it, but slots hold what is stored,
 * in fewer registers: each is an operand or the root of a subtree, which has been rounded. */
template <class Number, class Operations> struct direct_fold {
    enum { SLOTS = 3 }; /* TT_FUSED_RANKS is 2^3 */
    const Number number;
    const uint32_t row;
    const bool is_tree;
    vec slots[SLOTS];
    struct wide sum;
    uint32_t taken;

    template <class Params>
    MEMBER direct_fold(const Params &p)
        : number(number_of<Number>(p)), row(p.row), is_tree(p.shape == TT_TREE), sum(wide_of_one(vec(0u))),
          taken(0)
    {
        UNROLL
        for (uint32_t l = 0; l < SLOTS; l++)
            slots[l] = vec(0u);
    }
    MEMBER void add(vec v, bool is_last)
    {
        struct wide w = number.widen(v);
        uint32_t level = 0;
        for (; (taken >> level & 1) != 0 || (is_tree && is_last && taken >> level != 0); level++) {
            if ((taken >> level & 1) == 0)
                continue;
            w = Operations::combined(
                number, row, is_tree ? number.widen(chosen<SLOTS>(slots, level)) : sum, w);
            if (!is_tree)
                break;
            v = Number::ROUNDS ? stored(number, w) : number.narrow(w);
            w = number.widen(v);
        }
        taken = is_tree ? (taken >> level | 1) << level : 1;
        UNROLL
        for (uint32_t l = 0; l < SLOTS; l++)
            slots[l] = l == level ? v : slots[l];
        sum = w;
    }
};

/* What moves: as a type of bytes without operations. */
struct no_operations {
    enum { MOVES = 1 };
    template <class Number> static MEMBER vec product(Number, vec raw, uint64_t)
    {
        return raw;
    }
};

template <class Number> INLINE uint64_t factor_of(const tt_direct_params &p)
{
    using Element = typename Number::element;
    return p.scales != 0 && p.scalar != nullptr ? *static_cast<const Element *>(p.scalar) : p.factor;
}

/* Of a block, the part of `most` bytes that begins at `at`. */
INLINE uint64_t part_of(const tt_direct_block &block, uint64_t at, uint64_t most)
{
    const uint64_t left = at < block.bytes ? block.bytes - at : 0;
    return left < most ? left : most;
}

/* Of LL: whether the vector at `at` of a block is sent. Where there are no bytes at all, a barrier, the first
 * one is, empty. */
INLINE bool travels(const tt_direct_block &block, uint64_t at)
{
    return at == 0 || at < block.bytes;
}

/* All ranks one after the other, each beginning with itself. */
template <class Params> INLINE uint32_t rank_behind(const Params &p, uint32_t i)
{
    return (p.rank + i) % p.ranks;
}

/* How the vector is reached from whose start on so many bytes are left. */
template <class Element> INLINE any_vector<Element> vector_of(uint64_t bytes)
{
    return any_vector<Element>{ static_cast<uint32_t>((bytes < 16 ? bytes : 16) / sizeof(Element)) };
}

/* --- Where vectors lie on their way. */

/* The bytes of all blocks that a round of this block of threads is about. */
struct direct_round {
    uint64_t at, bytes;
    uint64_t piece; /* where a pad has more than one block, each begins so far behind the one before */
};

INLINE tt_pad_room &room_of(const tt_direct_params &p, uint32_t rank)
{
    return p.pads[rank]->room[block_index()];
}

INLINE uint64_t word_of(uint32_t data, uint32_t tag)
{
    return data | static_cast<uint64_t>(tag) << 32;
}

/* LL: in slots, which have the number of the vector in its block. */
struct ll_slots {
    enum { GROUP = 4 }; /* vectors on their way at a time, as far as there are registers for them */
    patience waits;
    uint32_t first_tag, second_tag, parity;

    MEMBER ll_slots(const patience &of)
        : waits(of), first_tag(static_cast<uint32_t>(of.epoch)),
          second_tag(static_cast<uint32_t>(of.epoch + (of.epoch >> 32))), parity(of.epoch & 1)
    {
    }
    template <class Params> MEMBER void store(const Params &p, uint32_t to, uint64_t at, vec v) const
    {
        tt_ll_vector &there = p.pads[to]->ll[parity][p.rank][at / 16];
        UNROLL
        for (int i = 0; i < 2; i++)
            store_relaxed_halves(there.packet[i],
                halves{ word_of(v.of[2 * i], first_tag), word_of(v.of[2 * i + 1], second_tag) });
    }
    template <class Params> MEMBER void store_to_all(const Params &p, uint64_t at, vec v) const
    {
        ROLLED
        for (uint32_t i = 0; i < p.ranks; i++)
            store(p, rank_behind(p, i), at, v);
    }
    /* True if it is there. */
    template <class Params> MEMBER bool load(const Params &p, uint32_t from, uint64_t at, vec &v) const
    {
        const tt_ll_vector &here = p.pads[p.rank]->ll[parity][from][at / 16];
        bool there = true;
        UNROLL
        for (int i = 0; i < 2; i++) {
            const halves h = load_relaxed_halves(here.packet[i]);
            v.of[2 * i] = static_cast<uint32_t>(h.first);
            v.of[2 * i + 1] = static_cast<uint32_t>(h.second);
            there = there && h.first >> 32 == first_tag && h.second >> 32 == second_tag;
        }
        return there;
    }
};

/* MAPPED: what ranks have in their own buffers, up to the byte `end`. */
struct mapped_buffers {
    enum { GROUP = 2 };
    const uint8_t *const *source;
    uint64_t end;
};

/* The vectors at one offset that come from ranks `first` and on, as many as there are up to COUNT: LL waits
 * until all of them are there; of PADS they begin at `at` in the ranks' operands; and so of MAPPED, where so
 * many bytes of them are left. */
template <class Element, uint32_t COUNT>
INLINE void load_vectors(
    const tt_direct_params &p, const mapped_buffers &b, vec *raw, uint32_t first, uint64_t at)
{
    UNROLL
    for (uint32_t i = 0; i < COUNT; i++)
        raw[i] = first + i < p.ranks ? vector_of<Element>(b.end - at).load(b.source[first + i], at) : vec(0u);
}
template <class Element, uint32_t COUNT>
INLINE void load_vectors(const tt_direct_params &p, ll_slots &slots, vec *raw, uint32_t first, uint64_t at)
{
    bool there;
    do {
        there = true;
        UNROLL
        for (uint32_t i = 0; i < COUNT; i++) {
            raw[i] = vec(0u);
            if (first + i >= p.ranks)
                continue;
            if (p.way == TT_DIRECT_PADS)
                raw[i] = aligned_vector::load(room_of(p, first + i).operands, at);
            else if (travels(p.receive[first + i], at))
                there = slots.load(p, first + i, at, raw[i]) && there;
        }
    } while (!there && !gives_up(p, slots.waits));
}

/* Bytes between a pad and a buffer, which may lie anywhere: while both are aligned, four packets are on their
 * way at a time. Returns where what is left begins for this thread. */
INLINE uint64_t copy_packets(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    const uint64_t step = 16 * block_threads();
    uint64_t at = 16 * thread_index();
    if ((low_bits(to) | low_bits(from)) % 16 != 0)
        return at;
    ROLLED
    for (; at + 3 * step + 16 <= bytes; at += 4 * step) {
        packet piece[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            piece[i] = load_packet(from + at + i * step);
        UNROLL
        for (int i = 0; i < 4; i++)
            store_packet(to + at + i * step, piece[i]);
    }
    return at;
}

template <class Element> INLINE void copy_out(uint8_t *to, const uint8_t *pad, uint64_t bytes)
{
    uint64_t at = copy_packets(to, pad, bytes);
    ROLLED
    for (; at < bytes; at += 16 * block_threads())
        vector_of<Element>(bytes - at).store(to, at, aligned_vector::load(pad, at));
}
/* Between any two buffers; what is in place stays there. */
template <class Element> INLINE void copy_any(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    if (to == from)
        return;
    uint64_t at = copy_packets(to, from, bytes);
    ROLLED
    for (; at < bytes; at += 16 * block_threads()) {
        const any_vector<Element> any = vector_of<Element>(bytes - at);
        any.store(to, at, any.load(from, at));
    }
}

INLINE uint8_t *result_at(const tt_direct_params &p, const tt_direct_block &block, const direct_round &r)
{
    return static_cast<uint8_t *>(p.out) + block.at + (r.at - p.before[1]);
}

/* --- A round: ranks give their operands, and take what they are to have. */

/* Of one block. A vector that is not whole is filled up with zeros. */
template <class Number, class Operations>
INLINE void give_block(const tt_direct_params &p, const ll_slots &slots, const direct_round &r, uint32_t to)
{
    using Element = typename Number::element;
    const tt_direct_block &block = p.send[to];
    const uint8_t *from = static_cast<const uint8_t *>(p.in) + block.at + (r.at - p.before[0]);
    uint8_t *pad = room_of(p, p.rank).operands + to * r.piece;
    const uint64_t bytes = part_of(block, r.at, r.bytes), factor = factor_of<Number>(p);
    uint64_t at = 16 * thread_index();
    if (p.way == TT_DIRECT_PADS && p.scales == 0)
        at = copy_packets(pad, from, bytes);
    ROLLED
    for (; at < bytes || (p.way == TT_DIRECT_LL && r.at + at == 0); at += 16 * block_threads()) {
        vec v = vector_of<Element>(bytes - at).load(from, at);
        if (p.scales != 0)
            v = Operations::product(Number(), v, factor);
        if (p.way == TT_DIRECT_PADS)
            aligned_vector::store(pad, at, v);
        else if (p.blocks > 1)
            slots.store(p, to, r.at + at, v);
        else
            slots.store_to_all(p, r.at + at, v);
    }
}

/* The bytes of a round's result that a rank folds for all. */
struct direct_share {
    uint64_t at, bytes;
    MEMBER direct_share(const tt_direct_params &p, uint64_t bytes_of_all, uint32_t rank)
    {
        const uint64_t most = ((bytes_of_all + 15) / 16 + p.ranks - 1) / p.ranks * 16;
        at = most * rank;
        bytes = part_of(tt_direct_block{ 0, bytes_of_all }, at, most);
    }
};

/* What all ranks' operands give, at one offset. */
template <class Number, class Operations, class Params, class Sources>
INLINE vec folded(const Params &p, Sources &sources, uint64_t at)
{
    enum { GROUP = Number::PARTS > 1 ? 2 : static_cast<int>(Sources::GROUP) }; /* four spill on sm_120 */
    direct_fold<Number, Operations> fold(p);
    ROLLED
    for (uint32_t first = 0; first < p.ranks; first += GROUP) {
        vec raw[GROUP];
        load_vectors<typename Number::element, GROUP>(p, sources, raw, first, at);
        ROLLED
        for (uint32_t i = 0; i < GROUP && first + i < p.ranks; i++)
            fold.add(chosen<GROUP>(raw, i), first + i + 1 == p.ranks);
    }
    return stored(fold.number, divided(fold.number, fold.sum, p.row == TT_ROW_SUM ? p.divisor : 0));
}

template <class Number, class Operations>
INLINE void take(const tt_direct_params &p, ll_slots &slots, const direct_round &r, Operations)
{
    const tt_direct_block &block = p.receive[p.rank];
    const uint64_t all = part_of(block, r.at, r.bytes);
    const direct_share share(p, all, p.rank);
    const bool ll = p.way == TT_DIRECT_LL, shares = !ll && p.shares != 0;
    const uint64_t start = ll ? r.at : shares ? share.at : p.blocks == 1 ? 0 : p.rank * r.piece;
    const uint64_t bytes = shares ? share.bytes : all;
    uint8_t *to = shares ? room_of(p, p.rank).results : result_at(p, block, r);
    ROLLED
    for (uint64_t at = 16 * thread_index(); at < bytes; at += 16 * block_threads()) {
        const vec v = folded<Number, Operations>(p, slots, start + at);
        if (!slots.waits.is_over)
            vector_of<typename Number::element>(bytes - at).store(to, at, v);
    }
}

/* From each rank to a place of its own: from pads, or as packets come. */
template <class Element> INLINE void take_segments(const tt_direct_params &p, const direct_round &r)
{
    ROLLED
    for (uint32_t i = 0; i < p.ranks; i++) {
        const uint32_t from = rank_behind(p, i);
        const uint8_t *pad = room_of(p, from).operands + (p.blocks == 1 ? 0 : p.rank * r.piece);
        copy_out<Element>(result_at(p, p.receive[from], r), pad, part_of(p.receive[from], r.at, r.bytes));
    }
}
template <class Element> INLINE void take_packets(const tt_direct_params &p, ll_slots &slots, uint64_t at)
{
    enum { GROUP = 4 };
    ROLLED
    for (uint32_t first = 0; first < p.ranks; first += GROUP) {
        vec raw[GROUP];
        load_vectors<Element, GROUP>(p, slots, raw, first, at);
        ROLLED
        for (uint32_t i = 0; i < GROUP && first + i < p.ranks; i++) {
            const tt_direct_block &block = p.receive[first + i];
            if (at < block.bytes && !slots.waits.is_over)
                vector_of<Element>(block.bytes - at).store(p.out, block.at + at, chosen<GROUP>(raw, i));
        }
    }
}
template <class Number>
INLINE void take(const tt_direct_params &p, ll_slots &slots, const direct_round &r, no_operations)
{
    using Element = typename Number::element;
    if (p.way == TT_DIRECT_PADS) {
        take_segments<Element>(p, r);
        return;
    }
    ROLLED
    for (uint64_t at = 16 * thread_index(); at < r.bytes; at += 16 * block_threads())
        take_packets<Element>(p, slots, r.at + at);
}

/* What the ranks have folded for all. */
template <class Element> INLINE void gather(const tt_direct_params &p, const direct_round &r)
{
    const tt_direct_block &block = p.receive[p.rank];
    ROLLED
    for (uint32_t i = 0; i < p.ranks; i++) {
        const uint32_t from = rank_behind(p, i);
        const direct_share share(p, part_of(block, r.at, r.bytes), from);
        copy_out<Element>(result_at(p, block, r) + share.at, room_of(p, from).results, share.bytes);
    }
}

/* --- MAPPED: from the buffers of all ranks to the own one. */

/* The part of so many bytes, which begins at `from`, that this block does. */
INLINE direct_round block_round(uint64_t from, uint64_t bytes)
{
    const uint64_t most = ((bytes + 15) / 16 + grid_blocks() - 1) / grid_blocks() * 16;
    const uint64_t start = most * block_index();
    const uint64_t left = start < bytes ? bytes - start : 0;
    return { from + start, left < most ? left : most, most };
}

template <class Number, class Operations>
INLINE void take_mapped(const tt_direct_params &p, const meeting &m, const direct_round &r, Operations)
{
    const tt_direct_block &block = p.receive[p.rank];
    const uint64_t all = part_of(block, r.at, r.bytes);
    const direct_share share(p, all, p.rank);
    const uint64_t start = r.at + (p.shares != 0 ? share.at : 0), bytes = p.shares != 0 ? share.bytes : all;
    const mapped_buffers sources{ m.source, start + bytes };
    uint8_t *to = static_cast<uint8_t *>(p.out) + block.at;
    ROLLED
    for (uint64_t at = start + 16 * thread_index(); at < start + bytes; at += 16 * block_threads())
        vector_of<typename Number::element>(sources.end - at)
            .store(to, at, folded<Number, Operations>(p, sources, at));
}
template <class Number, class>
INLINE void take_mapped(const tt_direct_params &p, const meeting &m, const direct_round &r, no_operations)
{
    ROLLED
    for (uint32_t i = 0; i < p.ranks; i++) {
        const uint32_t from = rank_behind(p, i);
        copy_any<typename Number::element>(
            result_at(p, p.receive[from], r), m.source[from] + r.at, part_of(p.receive[from], r.at, r.bytes));
    }
}

/* What the others have folded for all. */
template <class Element>
INLINE void gather_mapped(const tt_direct_params &p, const meeting &m, const direct_round &r)
{
    const tt_direct_block &block = p.receive[p.rank];
    ROLLED
    for (uint32_t i = 1; i < p.ranks; i++) {
        const uint32_t from = rank_behind(p, i);
        const direct_share share(p, part_of(block, r.at, r.bytes), from);
        copy_any<Element>(result_at(p, block, r) + share.at, m.result[from] + r.at + share.at, share.bytes);
    }
}

/* The whole call, with the first of these epochs. When it is over, nobody reads this rank's buffers. */
template <class Number, class Operations, bool releases>
INLINE void run_mapped(const tt_direct_params &p, meeting &m, patience waits, uint64_t epoch)
{
    const direct_round r = block_round(0, p.longest);
    take_mapped<Number, Operations>(p, m, r, Operations());
    if (p.shares != 0) {
        if (!meet<releases>(p, m, waits, epoch++))
            return;
        gather_mapped<typename Number::element>(p, m, r);
    }
    meet<releases>(p, m, waits, epoch);
}

/* --- The other ways. */

/* What this block does of a part; false: it is to end. */
template <class Number, class Operations, bool releases>
INLINE bool run_part(
    const tt_direct_params &p, meeting &m, ll_slots &slots, const direct_round &all, uint64_t epoch)
{
    const bool ll = p.way == TT_DIRECT_LL;
    const uint64_t end = all.at + all.bytes;
    for (uint64_t at = all.at; at < end; at += all.piece, epoch += 2) {
        const direct_round r = { at, end - at < all.piece ? end - at : all.piece, all.piece };
        ROLLED
        for (uint32_t i = 0; i < p.blocks; i++)
            give_block<Number, Operations>(p, slots, r, p.blocks == 1 ? 0 : rank_behind(p, i));
        if (!ll && !meet<releases>(p, m, slots.waits, epoch))
            return false;
        take<Number>(p, slots, r, Operations());
        if (!ll && !meet<releases>(p, m, slots.waits, epoch + 1))
            return false;
        if (!ll && p.shares != 0)
            gather<typename Number::element>(p, r);
    }
    return !slots.waits.is_over;
}

/* Without bytes, as in a barrier, there is one vector all the same, which is empty. After a kernel that has
 * left the next ones only count on.
 * PTX of direct_kernel: ld.relaxed.sys.global.v2.u64 st.relaxed.sys.global.v2.u64 ld.relaxed.sys.global.u64
 * PTX of direct_kernel: ld.global.v4.u32 st.global.v4.u32 ld.acquire.sys.global.u64 bar.sync
 * PTX of direct_kernel: atom.acq_rel.gpu.global.add.u32 st.release.sys.global.u64 bar.red.or.pred
 * PTX of direct_kernelI14float32_number: fence.sc.sys */
template <class Number, class Operations, bool releases>
KERNEL void AT_MOST_THREADS(TT_DIRECT_BLOCK) direct_kernel(const PARAMS tt_direct_params p)
{
    enum { MAPS = Operations::MOVES || sizeof(typename Number::element) > 1 }; /* as tt_direct_maps says */
    SHARED(meeting, m);
    uint64_t epoch = begin_direct(p);
    patience waits{ epoch, p.signature, 0, begin_meetings(p, m) };
    const bool maps = MAPS && p.maps != 0;
    if (maps) {
        bool mapped = false;
        waits.is_over = waits.is_over || !find_places(p, m, waits, epoch, mapped);
        epoch++;
        if (mapped) {
            if constexpr (MAPS)
                run_mapped<Number, Operations, releases>(p, m, waits, epoch);
            end_direct(p, p.shares != 0 ? epoch + 1 : epoch);
            return;
        }
    }
    const bool ll = p.way == TT_DIRECT_LL;
    const uint64_t all = p.longest == 0 ? 16 : (p.longest + 15) / 16 * 16;
    const uint64_t once = p.part == 0 ? all : p.part, end = p.end == 0 ? all : p.end;
    ll_slots slots(waits);
    bool goes = !waits.is_over;
    ROLLED
    for (uint64_t from = p.begin; from < end; from += once) {
        direct_round part = block_round(from, all - from < once ? all - from : once);
        const uint64_t most = part.piece;
        part.piece = ll ? most : p.segment / p.blocks / 16 * 16;
        if (from > p.begin && goes) { /* else another block may end, and tell so, with an earlier epoch */
            begin_part(p, p.signature, epoch);
            slots.waits.epoch = epoch;
        }
        goes = goes && run_part<Number, Operations, releases>(p, m, slots, part, epoch);
        if (maps && from == p.begin && part.bytes == 0) /* others wait until it has read places */
            goes = goes && meet<releases>(p, m, slots.waits, epoch);
        epoch += ll ? 1 : 2 * ((most + part.piece - 1) / part.piece);
    }
    end_direct(p, epoch - 1);
}

/* --- A row of the table. */

#define OPERATIONS(kind, lane, order)                                                                        \
    kind##_operations<sum_##lane##_of_lanes, prod_##lane##_of_lanes, max_##order##_of_lanes,                 \
        min_##order##_of_lanes>
#define DIRECT(number, ...)                                                                                  \
    KERNEL_FUNCTION(tt_direct_params, direct_kernel<number##_number, __VA_ARGS__, true>)

#endif
