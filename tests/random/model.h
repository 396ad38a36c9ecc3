// The objects of the plain model: memory that lives as long as one program, random layouts beside
// the datatypes that describe them, and blocks of data in buffers.
#ifndef MODEL_H
#define MODEL_H

#include "../c/check.h"
#include <dlfcn.h>

enum { PROCESSES_MAX = 8, DIMENSION_MAX = 12 };

// Memory of one program; all of it is given back at its end. Each piece is allocated alone, so that
// checking tools see where it ends.
static void **kept;
static int kept_count, kept_room;

static void *keep(size_t bytes) {
    if (kept_count == kept_room) {
        kept_room = kept_room ? 2 * kept_room : 256;
        kept = realloc(kept, (size_t)kept_room * sizeof *kept);
    }
    void *memory = calloc(bytes ? bytes : 1, 1);
    REQUIRE(memory != NULL, "no memory for %zu bytes", bytes);
    return kept[kept_count++] = memory;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    Random random = {a * 0x9e3779b97f4a7c15u + b};
    return random_next(&random);
}

// Memory for messages: where a library in place of the driver of devices is loaded
// (tests/c/fake_devices.h), half of it is memory of devices.
static void *devices_memory[4096];
static int devices_memory_count;

static void *keep_message(size_t bytes) {
    static void *(*visible)(size_t);
    static uint64_t number;
    if (number++ == 0) visible = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "fake_device_visible");
    int room = devices_memory_count < (int)(sizeof devices_memory / sizeof *devices_memory);
    if (!visible || !room || mix(number, (uint64_t)check_rank) % 2) return keep(bytes);
    void *memory = visible(bytes ? bytes : 1);
    return memory ? devices_memory[devices_memory_count++] = memory : keep(bytes);
}

static void give_back_kept(void) {
    void (*give_back)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "fake_device_free_visible");
    while (devices_memory_count > 0) give_back(devices_memory[--devices_memory_count]);
    while (kept_count > 0) free(kept[--kept_count]);
}

static int chance(Random *random, int percent) { return random_below(random, 100) < percent; }

static void shuffle(Random *random, int *values, int count) {
    for (int i = count - 1; i > 0; i--) {
        int j = random_below(random, i + 1), value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

// A type map (sizes and displacements, in the order of the datatype) and the datatype that must be
// equal to it. Lower bound zero; the extent is always set, so that no padding is left to the
// library.
typedef struct {
    int entries, made;
    int *size;
    long *at;
    long extent, bytes;
    MPI_Datatype type;
} Layout;

enum { ENTRIES_MAX = 3, BASES = 6 };

// The content of a message. Both sides have equal content, each in a layout of its own.
static const struct {
    int entries, size[ENTRIES_MAX];
    long at[ENTRIES_MAX], extent;
    int bytes;
    MPI_Datatype basic[ENTRIES_MAX];
} bases[BASES] = {
    {1, {1}, {0}, 1, 1, {MPI_BYTE}},
    {1, {2}, {0}, 2, 2, {MPI_INT16_T}},
    {1, {4}, {0}, 4, 4, {MPI_INT}},
    {1, {8}, {0}, 8, 8, {MPI_DOUBLE}},
    {2, {4, 8}, {0, 8}, 16, 12, {MPI_INT, MPI_DOUBLE}},
    {3, {8, 1, 2}, {0, 8, 10}, 16, 11, {MPI_INT64_T, MPI_CHAR, MPI_SHORT}},
};

static Layout layout_empty(int entries) {
    return (Layout){.size = keep((size_t)entries * sizeof(int)),
                    .at = keep((size_t)entries * sizeof(long)),
                    .type = MPI_DATATYPE_NULL};
}

static void layout_release(Layout *layout) {
    if (layout->made) OK(MPI_Type_free(&layout->type));
    layout->made = 0;
}

// One after another from a displacement on.
static void layout_grow(Layout *layout, const Layout *old, int copies, long displacement) {
    for (int copy = 0; copy < copies; copy++, displacement += old->extent) {
        for (int i = 0; i < old->entries; i++) {
            layout->size[layout->entries] = old->size[i];
            layout->at[layout->entries++] = old->at[i] + displacement;
        }
        layout->bytes += old->bytes;
        if (displacement + old->extent > layout->extent)
            layout->extent = displacement + old->extent;
    }
}

static void layout_resize(Layout *layout, long extent) {
    MPI_Datatype plain = layout->type;
    OK(MPI_Type_create_resized(plain, 0, extent, &layout->type));
    OK(MPI_Type_free(&plain));
    layout->extent = extent;
    layout->made = 1;
}

static Layout layout_base(int base) {
    int entries = bases[base].entries, ones[ENTRIES_MAX] = {1, 1, 1};
    MPI_Aint at[ENTRIES_MAX];
    Layout layout = layout_empty(entries);
    for (int i = 0; i < entries; i++) {
        layout.size[i] = bases[base].size[i];
        layout.at[i] = at[i] = bases[base].at[i];
    }
    layout.entries = entries;
    layout.bytes = bases[base].bytes;
    layout.extent = bases[base].extent;
    layout.type = bases[base].basic[0];
    if (entries > 1) {
        OK(MPI_Type_create_struct(entries, ones, at, bases[base].basic, &layout.type));
        layout_resize(&layout, layout.extent);
    }
    return layout;
}

static int some_divisor(Random *random, int number) {
    int divisor;
    do divisor = 1 + random_below(random, number);
    while (number % divisor);
    return divisor;
}

static void layout_indexed(Random *random, Layout *made, const Layout *old, int elements) {
    int lengths[DIMENSION_MAX], displacements[DIMENSION_MAX], order[DIMENSION_MAX];
    int blocks = 0, next = 0, bytes = chance(random, 50);
    MPI_Aint at[DIMENSION_MAX];
    for (int left = elements; left > 0; left -= lengths[blocks], blocks++) {
        lengths[blocks] = 1 + random_below(random, left);
        order[blocks] = blocks;
    }
    // The place of blocks implies nothing about their order in the message.
    shuffle(random, order, blocks);
    for (int i = 0; i < blocks; i++) {
        next += random_below(random, 3);
        displacements[order[i]] = next;
        at[order[i]] = next * old->extent + (bytes ? random_below(random, (int)old->extent) : 0);
        next += lengths[order[i]] + 1;
    }
    for (int i = 0; i < blocks; i++)
        layout_grow(made, old, lengths[i], bytes ? at[i] : displacements[i] * old->extent);
    if (bytes)
        OK(MPI_Type_create_hindexed(blocks, lengths, at, old->type, &made->type));
    else
        OK(MPI_Type_indexed(blocks, lengths, displacements, old->type, &made->type));
}

static void layout_vector(Random *random, Layout *made, const Layout *old, int elements) {
    int block = some_divisor(random, elements), count = elements / block;
    int stride = block + random_below(random, 3);
    long step = stride * old->extent + random_below(random, 4);
    if (chance(random, 50)) {
        OK(MPI_Type_create_hvector(count, block, step, old->type, &made->type));
    } else {
        step = stride * old->extent;
        OK(MPI_Type_vector(count, block, stride, old->type, &made->type));
    }
    for (int i = 0; i < count; i++) layout_grow(made, old, block, i * step);
}

static void layout_subarray(Random *random, Layout *made, const Layout *old, int elements) {
    int rows = some_divisor(random, elements), columns = elements / rows;
    int parts[2] = {rows, columns}, starts[2] = {random_below(random, 2), random_below(random, 3)};
    int sizes[2] = {starts[0] + rows + random_below(random, 2),
                    starts[1] + columns + random_below(random, 2)};
    for (int i = 0; i < rows; i++)
        layout_grow(made, old, columns, ((starts[0] + i) * sizes[1] + starts[1]) * old->extent);
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, old->type, &made->type));
    made->extent = sizes[0] * sizes[1] * old->extent;
}

static void layout_struct(Random *random, Layout *made, const Layout *old, int elements) {
    int lengths[2] = {random_below(random, elements + 1)};
    lengths[1] = elements - lengths[0];
    MPI_Aint at[2] = {random_below(random, 9)};
    at[1] = at[0] + lengths[0] * old->extent + random_below(random, 9);
    MPI_Datatype types[2] = {old->type, old->type};
    for (int i = 0; i < 2; i++) layout_grow(made, old, lengths[i], at[i]);
    OK(MPI_Type_create_struct(2, lengths, at, types, &made->type));
}

static Layout layout_over(Random *random, Layout *old, int elements) {
    Layout made = layout_empty(old->entries * elements);
    switch (random_below(random, 6)) {
    case 0: layout_vector(random, &made, old, elements); break;
    case 1: layout_subarray(random, &made, old, elements); break;
    case 2: layout_struct(random, &made, old, elements); break;
    case 3:
        layout_grow(&made, old, elements, 0);
        OK(MPI_Type_contiguous(elements, old->type, &made.type));
        break;
    default: layout_indexed(random, &made, old, elements);
    }
    layout_resize(&made, made.extent + (chance(random, 50) ? random_below(random, 20) : 0));
    layout_release(old);
    return made;
}

// A layout of so many elements of a base, ready for use.
static Layout *layout_random(Random *random, int base, int elements) {
    Layout *layout = keep(sizeof *layout);
    *layout = layout_base(base);
    int inner = some_divisor(random, elements);
    // Plain data is what most programs send.
    if (elements > 1 || chance(random, 40)) *layout = layout_over(random, layout, inner);
    if (inner < elements) *layout = layout_over(random, layout, elements / inner);
    if (layout->made) OK(MPI_Type_commit(&layout->type));
    return layout;
}

// One buffer and the blocks in it, as the arguments of a call describe them.
typedef struct {
    int blocks;
    int *count, *displacement;
    MPI_Aint *at;
    int *at_int;
    MPI_Datatype *type;
    Layout **layout;
    long bytes;
} View;

enum { REGULAR, VARIED, TYPED };

// Blocks of `units[i]` units each, a unit being so many elements of the base. REGULAR blocks follow
// each other; VARIED ones lie anywhere in one datatype; TYPED ones have a datatype each.
static View view_make(Random *random, int base, int unit, int blocks, const int *units, int shape) {
    size_t n = (size_t)blocks + 1;
    View view = {blocks, keep(n * sizeof(int)), keep(n * sizeof(int)), keep(n * sizeof(MPI_Aint)),
                 keep(n * sizeof(int)), keep(n * sizeof(MPI_Datatype)), keep(n * sizeof(Layout *)), 0};
    int *order = keep(n * sizeof(int)), elements = some_divisor(random, unit);
    Layout *layout = layout_random(random, base, elements);
    for (int i = 0; i < blocks; i++) order[i] = i;
    if (shape != REGULAR) shuffle(random, order, blocks);
    for (int i = 0; i < blocks; i++) {
        int block = order[i];
        if (shape == TYPED && i > 0)
            layout = layout_random(random, base, elements = some_divisor(random, unit));
        view.layout[block] = layout;
        view.type[block] = layout->type;
        view.count[block] = units[block] * (unit / elements);
        if (shape == VARIED) {
            view.displacement[block] =
                (int)(view.bytes / layout->extent + (view.bytes % layout->extent > 0));
            if (chance(random, 30)) view.displacement[block] += random_below(random, 3);
            view.at[block] = view.displacement[block] * layout->extent;
        } else {
            view.at[block] = view.bytes + (shape == TYPED ? random_below(random, 9) : 0);
        }
        view.at_int[block] = (int)view.at[block];
        view.bytes = view.at[block] + view.count[block] * layout->extent;
    }
    // The call needs a datatype even if there is no block.
    if (blocks == 0) {
        view.layout[0] = layout;
        view.type[0] = layout->type;
    }
    return view;
}

static void view_release(View *view) {
    for (int i = 0; i < view->blocks || i == 0; i++)
        if (view->layout && view->layout[i]) layout_release(view->layout[i]);
}

// Put the bytes of a message where the block lies, as a receive must.
static void view_put(unsigned char *image, const View *view, int block, const unsigned char *packed,
                     long bytes) {
    const Layout *layout = view->layout[block];
    unsigned char *item = image + view->at[block];
    for (; bytes > 0; item += layout->extent)
        for (int i = 0; i < layout->entries; i++) {
            memcpy(item + layout->at[i], packed, (size_t)layout->size[i]);
            packed += layout->size[i];
            bytes -= layout->size[i];
        }
}

enum { UNTOUCHED = 0xE7 };

static unsigned char *image_make(long bytes) {
    unsigned char *image = keep_message((size_t)bytes);
    memset(image, UNTOUCHED, (size_t)bytes);
    return image;
}

// The bytes of a message, from what names it.
static const unsigned char *message_bytes(uint64_t name, long bytes) {
    static unsigned char *memory;
    static long room;
    if (bytes > room) memory = realloc(memory, (size_t)(room = 2 * bytes));
    Random random = {name};
    for (long i = 0; i < bytes; i += 8) {
        uint64_t word = random_next(&random);
        memcpy(memory + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8));
    }
    return memory;
}

#endif
