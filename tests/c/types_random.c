// Random nested datatypes against an oracle: the oracle keeps the type map, the list of (basic
// type, displacement), while MPI's constructors are called beside it. Size, extent, true extent,
// packing, and a message from the type to contiguous bytes and back must agree with the map.
// run: 1 2
// timeout: 60
// checkers: address
#include "check.h"

#define FAR (1L << 60)

enum { TYPES = 400, ENTRIES_MAX = 6000, LONGEST = 1 << 18 };

typedef struct {
    int count;
    long lower, upper;
    // The bounds were set, by MPI_Type_create_resized or as those of an array. In a struct such
    // bounds take precedence, and those of members without are ignored (MPI 5.0, section 5.1.7).
    int marked;
    int *size;
    long *at;
    MPI_Datatype type;
} Map;

static Random source;

static Map map_new(int capacity) {
    return (Map){0, 0, 0, 0, malloc(capacity * sizeof(int)), malloc(capacity * sizeof(long)),
                 MPI_DATATYPE_NULL};
}

static void map_free(Map *map) {
    free(map->size);
    free(map->at);
    if (map->type != MPI_DATATYPE_NULL) OK(MPI_Type_free(&map->type));
}

static Map basic(void) {
    static const struct {
        MPI_Datatype type;
        int size;
    } all[] = {{MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_DOUBLE, 8}, {MPI_INT64_T, 8}};
    int which = random_below(&source, 5);
    Map map = map_new(1);
    map.count = 1;
    map.size[0] = all[which].size;
    map.at[0] = 0;
    map.upper = all[which].size;
    OK(MPI_Type_dup(all[which].type, &map.type));
    return map;
}

// A new map over `old`, whose bounds are still empty.
static Map over(const Map *old, int copies) {
    Map map = map_new(old->count * copies + 1);
    map.lower = FAR;
    map.upper = -FAR;
    return map;
}

// Add `count` copies of `old` from a displacement on, one extent after another.
static void grow(Map *map, const Map *old, int count, long displacement) {
    long extent = old->upper - old->lower;
    // Not every library takes the rule so.
    int marked = old->marked && check_is_combray;
    if (marked && !map->marked) {
        map->marked = 1;
        map->lower = FAR;
        map->upper = -FAR;
    }
    for (int copy = 0; copy < count; copy++) {
        long shift = displacement + copy * extent;
        for (int i = 0; i < old->count; i++) {
            map->size[map->count] = old->size[i];
            map->at[map->count++] = old->at[i] + shift;
        }
        if (map->marked && !marked) continue;
        if (old->lower + shift < map->lower) map->lower = old->lower + shift;
        if (old->upper + shift > map->upper) map->upper = old->upper + shift;
    }
}

static void data_bounds(const Map *map, long *low, long *high) {
    *low = FAR;
    *high = -FAR;
    for (int i = 0; i < map->count; i++) {
        if (map->at[i] < *low) *low = map->at[i];
        if (map->at[i] + map->size[i] > *high) *high = map->at[i] + map->size[i];
    }
}

// Where no bound was set, the extent may be padded to the alignment of the basic types (MPI 5.0,
// section 5.1.7): take what MPI gives. Some libraries pad only structs; and whether the padding of
// the type below counts for this one is read in two ways.
static void take_padding(Map *map, int is_struct) {
    MPI_Aint lower, extent;
    long low, high;
    OK(MPI_Type_get_extent(map->type, &lower, &extent));
    data_bounds(map, &low, &high);
    long upper = lower + extent, most = map->upper + 7;
    int may = is_struct ? !map->marked || !check_is_combray : !map->marked && check_is_combray;
    CHECK(upper == map->upper || (may && upper >= high && upper <= most),
          "the upper bound is %ld, not from %ld to %ld", upper, high, most);
    CHECK_EQ(lower, map->lower);
    map->upper = upper;
}

static Map vector(const Map *old) {
    int count = 1 + random_below(&source, 4), block = 1 + random_below(&source, 3);
    int stride = block + random_below(&source, 3), bytes = random_below(&source, 2);
    long extent = old->upper - old->lower;
    long step = bytes ? stride * extent + random_below(&source, 5) : stride * extent;
    Map map = over(old, count * block);
    for (int i = 0; i < count; i++) grow(&map, old, block, i * step);
    if (bytes)
        OK(MPI_Type_create_hvector(count, block, step, old->type, &map.type));
    else
        OK(MPI_Type_vector(count, block, stride, old->type, &map.type));
    take_padding(&map, 0);
    return map;
}

static Map indexed(const Map *old) {
    enum { BLOCKS_MAX = 4 };
    int count = 1 + random_below(&source, BLOCKS_MAX), lengths[BLOCKS_MAX], total = 0;
    int form = random_below(&source, 4), next = 0;
    int displacements[BLOCKS_MAX];
    MPI_Aint bytes[BLOCKS_MAX];
    long extent = old->upper - old->lower;
    for (int i = 0; i < count; i++) {
        lengths[i] = form >= 2 ? 2 : random_below(&source, 4);
        displacements[i] = next + random_below(&source, 3);
        bytes[i] = displacements[i] * extent + (form & 1 ? random_below(&source, 4) : 0);
        next = displacements[i] + lengths[i] + 1;
        total += lengths[i];
    }
    if (total == 0) lengths[0] = total = 1;
    Map map = over(old, total);
    for (int i = 0; i < count; i++) grow(&map, old, lengths[i], bytes[i]);
    if (form == 0)
        OK(MPI_Type_indexed(count, lengths, displacements, old->type, &map.type));
    else if (form == 1)
        OK(MPI_Type_create_hindexed(count, lengths, bytes, old->type, &map.type));
    else if (form == 2)
        OK(MPI_Type_create_indexed_block(count, 2, displacements, old->type, &map.type));
    else
        OK(MPI_Type_create_hindexed_block(count, 2, bytes, old->type, &map.type));
    take_padding(&map, 0);
    return map;
}

static Map structure(const Map *first, const Map *second) {
    int lengths[2] = {1 + random_below(&source, 3), 1 + random_below(&source, 3)};
    MPI_Aint displacements[2];
    MPI_Datatype types[2] = {first->type, second->type};
    displacements[0] = 16 * random_below(&source, 4) - first->lower;
    long end = displacements[0] + first->lower + lengths[0] * (first->upper - first->lower);
    displacements[1] = end + 8 * random_below(&source, 4) - second->lower;
    Map map = map_new(first->count * lengths[0] + second->count * lengths[1]);
    map.lower = FAR;
    map.upper = -FAR;
    grow(&map, first, lengths[0], displacements[0]);
    grow(&map, second, lengths[1], displacements[1]);
    OK(MPI_Type_create_struct(2, lengths, displacements, types, &map.type));
    take_padding(&map, 1);
    return map;
}

static Map resized(const Map *old) {
    Map map = over(old, 1);
    grow(&map, old, 1, 0);
    map.marked = 1;
    // Only ever wider, so that copies do not overlap.
    map.lower -= 8 * random_below(&source, 3);
    map.upper += 8 * random_below(&source, 3);
    OK(MPI_Type_create_resized(old->type, map.lower, map.upper - map.lower, &map.type));
    return map;
}

static Map subarray(const Map *old) {
    int sizes[2] = {2 + random_below(&source, 4), 2 + random_below(&source, 4)};
    int parts[2] = {1 + random_below(&source, sizes[0]), 1 + random_below(&source, sizes[1])};
    int starts[2] = {random_below(&source, sizes[0] - parts[0] + 1),
                     random_below(&source, sizes[1] - parts[1] + 1)};
    int fortran = random_below(&source, 2), slow = fortran ? 1 : 0, fast = 1 - slow;
    long extent = old->upper - old->lower;
    Map map = over(old, parts[0] * parts[1]);
    for (int i = 0; i < parts[slow]; i++)
        grow(&map, old, parts[fast],
             ((long)(starts[slow] + i) * sizes[fast] + starts[fast]) * extent);
    // The extent is that of the whole array.
    map.marked = 1;
    map.lower = 0;
    map.upper = sizes[0] * sizes[1] * extent;
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C,
                                old->type, &map.type));
    return map;
}

static Map contiguous(const Map *old) {
    int count = 1 + random_below(&source, 4);
    Map map = over(old, count);
    grow(&map, old, count, 0);
    OK(MPI_Type_contiguous(count, old->type, &map.type));
    take_padding(&map, 0);
    return map;
}

static Map random_type(int depth) {
    if (depth == 0) return basic();
    Map old = random_type(depth - 1), made;
    if (old.count > ENTRIES_MAX / 30) return old;
    Map other = (Map){0};
    switch (random_below(&source, 6)) {
    case 0: made = contiguous(&old); break;
    case 1: made = vector(&old); break;
    case 2: made = indexed(&old); break;
    case 3: made = resized(&old); break;
    // The array of a subarray starts at displacement zero only if its element does.
    case 4: made = old.lower == 0 ? subarray(&old) : contiguous(&old); break;
    default:
        other = random_type(random_below(&source, depth));
        made = structure(&old, &other);
        map_free(&other);
    }
    map_free(&old);
    return made;
}

static long map_size(const Map *map) {
    long size = 0;
    for (int i = 0; i < map->count; i++) size += map->size[i];
    return size;
}

static void judge_bounds(Map *map, int seed) {
    MPI_Aint lower, extent, true_lower, true_extent;
    int size;
    long low, high;
    data_bounds(map, &low, &high);
    OK(MPI_Type_size(map->type, &size));
    OK(MPI_Type_get_extent(map->type, &lower, &extent));
    OK(MPI_Type_get_true_extent(map->type, &true_lower, &true_extent));
    CHECK(size == map_size(map), "seed %d: size %d, not %ld", seed, size, map_size(map));
    CHECK(lower == map->lower, "seed %d: lower bound %ld, not %ld", seed, (long)lower, map->lower);
    CHECK(true_lower == low && true_extent == high - low, "seed %d: true extent %ld+%ld, not %ld+%ld",
          seed, (long)true_lower, (long)true_extent, low, high - low);
    CHECK(extent == map->upper - map->lower, "seed %d: extent %ld, not %ld", seed, (long)extent,
          map->upper - map->lower);
}

// Bytes in the order of the type map, as a message carries them.
static void gather(const Map *map, int count, const unsigned char *from, unsigned char *to) {
    for (int copy = 0; copy < count; copy++)
        for (int i = 0; i < map->count; i++) {
            memcpy(to, from + map->at[i] + copy * (map->upper - map->lower), map->size[i]);
            to += map->size[i];
        }
}

static void judge_data(Map *map, int seed) {
    static unsigned char typed[LONGEST], received[LONGEST], expected[LONGEST], bytes[LONGEST];
    int count = 1 + random_below(&source, 3), position = 0, packed_bound;
    long size = map_size(map) * count, origin = 1024 - (map->lower < 0 ? map->lower : 0);
    if (origin + map->upper * count + 1024 > LONGEST || size > LONGEST) return;
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    pattern_fill(typed, LONGEST, seed);
    gather(map, count, typed + origin, expected);
    OK(MPI_Type_commit(&map->type));
    // Typed here, bytes there. MPI_PACKED matches any signature.
    memset(bytes, 0, size);
    OK(MPI_Sendrecv(typed + origin, count, map->type, to, 0, bytes, LONGEST, MPI_PACKED, from, 0,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(!memcmp(bytes, expected, size), "seed %d: %d copies, %ld bytes to contiguous", seed, count,
          size);
    // Bytes on this side, a datatype on the other; the gaps must be unchanged.
    memset(received, 0xEE, LONGEST);
    OK(MPI_Sendrecv(expected, (int)size, MPI_PACKED, to, 1, received + origin, count, map->type,
                    from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    gather(map, count, received + origin, bytes);
    CHECK(!memcmp(bytes, expected, size), "seed %d: %ld bytes from contiguous", seed, size);
    long touched = 0;
    for (long i = 0; i < LONGEST; i++) touched += received[i] != 0xEE;
    CHECK(touched <= size, "seed %d: %ld bytes written, %ld in the type", seed, touched, size);
    // Typed to typed, and through MPI_Pack and MPI_Unpack in two pieces.
    memset(received, 0, LONGEST);
    OK(MPI_Sendrecv(typed + origin, count, map->type, to, 2, received + origin, count, map->type,
                    from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    gather(map, count, received + origin, bytes);
    CHECK(!memcmp(bytes, expected, size), "seed %d: typed to typed", seed);
    OK(MPI_Pack_size(count, map->type, MPI_COMM_WORLD, &packed_bound));
    CHECK(packed_bound >= size && packed_bound <= LONGEST, "seed %d: %d", seed, packed_bound);
    OK(MPI_Pack(typed + origin, count, map->type, bytes, LONGEST, &position, MPI_COMM_WORLD));
    CHECK(position >= size && position <= packed_bound, "seed %d: position %d", seed, position);
    memset(received, 0, LONGEST);
    position = 0;
    OK(MPI_Unpack(bytes, LONGEST, &position, received + origin, count, map->type, MPI_COMM_WORLD));
    gather(map, count, received + origin, bytes);
    CHECK(!memcmp(bytes, expected, size), "seed %d: packed and unpacked", seed);
}

int main(void) {
    check_begin();
    for (int seed = 1; seed <= TYPES; seed++) {
        source = random_from(seed);
        Map map = random_type(1 + random_below(&source, 4));
        judge_bounds(&map, seed);
        judge_data(&map, seed);
        map_free(&map);
        if (check_failures > CHECK_FAILURES_SHOWN) break;
    }
    return check_end();
}
