/* Two log-log panels as plain SVG: time over size, and bandwidth over size. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SERIES_MAX = 48, POINTS_MAX = 64,
    PANEL_WIDTH = 430, PANEL_HEIGHT = 360, MARGIN_LEFT = 80, MARGIN_TOP = 70, PANEL_GAP = 110,
    LEGEND_LINE = 20, LEGEND_COLUMN = 310, LEGEND_COLUMNS = 3,
};

struct point {
    double x, seconds, bandwidth;   /* bandwidth in MB/s, 0: none */
};

struct series {
    char name[80];
    int length;
    struct point points[POINTS_MAX];
};

static struct series all_series[SERIES_MAX];
static int series_count;

static const char *const colors[] = {"#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#c77700",
                                     "#00798c", "#6b4f4f", "#333333"};
static const char *const dashes[] = {"", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 3\"",
                                     " stroke-dasharray=\"9 3 2 3\""};

enum { COLORS = sizeof colors / sizeof colors[0], DASHES = sizeof dashes / sizeof dashes[0] };

static struct series *find_series(const struct row *row)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s%s", row->benchmark, row->variant[0] ? ", " : "",
             row->variant);
    for (int i = 0; i < series_count; i++)
        if (strcmp(all_series[i].name, name) == 0)
            return &all_series[i];
    if (series_count == SERIES_MAX)
        return NULL;
    struct series *series = &all_series[series_count++];
    snprintf(series->name, sizeof series->name, "%s", name);
    return series;
}

void plot_add(const struct row *row)
{
    struct series *series = find_series(row);
    if (!series || series->length == POINTS_MAX || row->timing.min <= 0)
        return;
    double total = (double)(row->bytes_total ? row->bytes_total : row->bytes);
    series->points[series->length++] = (struct point){
        /* Nothing at all has no logarithm: it stands one doubling left of one byte. */
        .x = total > 0 ? total : 0.5,
        .seconds = row->timing.min,
        .bandwidth = (double)row->bytes_total / row->timing.min * 1e-6,
    };
}

/* One axis: from 10^low to 10^high, or, in powers of two, 2^low to 2^high. */
struct axis {
    double low, high;
};

struct panel {
    const char *title, *unit;
    bool shows_bandwidth;
    double left;
    struct axis x, y;
};

static double value_of(const struct panel *panel, const struct point *point)
{
    return panel->shows_bandwidth ? point->bandwidth : point->seconds * 1e6;
}

/* Widens the axes to whole decades (y) and doublings (x); false if there is nothing to draw. */
static bool fit(struct panel *panel)
{
    struct axis x = {1e9, -1e9}, y = {1e9, -1e9};
    for (int i = 0; i < series_count; i++) {
        for (int k = 0; k < all_series[i].length; k++) {
            const struct point *point = &all_series[i].points[k];
            double value = value_of(panel, point);
            if (value <= 0)
                continue;
            x.low = fmin(x.low, floor(log2(point->x)));
            x.high = fmax(x.high, ceil(log2(point->x)));
            y.low = fmin(y.low, floor(log10(value)));
            y.high = fmax(y.high, ceil(log10(value)));
        }
    }
    if (x.low > x.high)
        return false;
    if (x.low == x.high) {
        x.low -= 1;
        x.high += 1;
    }
    if (y.low == y.high)
        y.high += 1;
    panel->x = x;
    panel->y = y;
    return true;
}

static double x_position(const struct panel *panel, double x)
{
    return panel->left +
           (log2(x) - panel->x.low) / (panel->x.high - panel->x.low) * PANEL_WIDTH;
}

static double y_position(const struct panel *panel, double y)
{
    return MARGIN_TOP + PANEL_HEIGHT -
           (log10(y) - panel->y.low) / (panel->y.high - panel->y.low) * PANEL_HEIGHT;
}

static void draw_line(FILE *file, double x1, double y1, double x2, double y2, const char *color)
{
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1,
            y1, x2, y2, color);
}

static void draw_x_axis(FILE *file, const struct panel *panel)
{
    double bottom = MARGIN_TOP + PANEL_HEIGHT;
    int doublings = (int)(panel->x.high - panel->x.low);
    int step = doublings > 16 ? 4 : doublings > 8 ? 2 : 1;
    for (int exponent = (int)panel->x.low; exponent <= (int)panel->x.high; exponent++) {
        char text[32];
        double x = panel->left + (exponent - panel->x.low) / doublings * PANEL_WIDTH;
        /* Both ends are labelled; labels that would be too near to them are left out. */
        bool end = exponent == (int)panel->x.low || exponent == (int)panel->x.high;
        bool near_end = step > 1 && (exponent - panel->x.low <= 1 || panel->x.high - exponent <= 1);
        bool labelled = end || (exponent % step == 0 && !near_end);
        if (!labelled)
            continue;
        draw_line(file, x, MARGIN_TOP, x, bottom, "#e4e4e4");
        if (exponent < 0)
            snprintf(text, sizeof text, "0 B");
        else
            size_text((size_t)1 << exponent, text, sizeof text);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
                bottom + 18, text);
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">bytes moved</text>\n",
            panel->left + PANEL_WIDTH / 2.0, bottom + 40);
}

static void draw_y_axis(FILE *file, const struct panel *panel)
{
    for (int exponent = (int)panel->y.low; exponent <= (int)panel->y.high; exponent++) {
        double y = y_position(panel, pow(10, exponent));
        for (int digit = 2; digit <= 9 && exponent < (int)panel->y.high; digit++) {
            double minor = y_position(panel, digit * pow(10, exponent));
            draw_line(file, panel->left, minor, panel->left + PANEL_WIDTH, minor, "#f2f2f2");
        }
        draw_line(file, panel->left, y, panel->left + PANEL_WIDTH, y, "#cfcfcf");
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                panel->left - 8, y + 4, pow(10, exponent));
    }
    double middle = MARGIN_TOP + PANEL_HEIGHT / 2.0, x = panel->left - 58;
    fprintf(file,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
            "transform=\"rotate(-90 %.1f %.1f)\">%s</text>\n",
            x, middle, x, middle, panel->unit);
    fprintf(file,
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">%s</text>\n",
            panel->left + PANEL_WIDTH / 2.0, MARGIN_TOP - 12, panel->title);
}

static void draw_series(FILE *file, const struct panel *panel, int index)
{
    const struct series *series = &all_series[index];
    const char *color = colors[index % COLORS];
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"%s points=\"", color,
            dashes[index / COLORS % DASHES]);
    for (int k = 0; k < series->length; k++) {
        double value = value_of(panel, &series->points[k]);
        if (value > 0)
            fprintf(file, "%.1f,%.1f ", x_position(panel, series->points[k].x),
                    y_position(panel, value));
    }
    fputs("\"/>\n", file);
    for (int k = 0; k < series->length; k++) {
        double value = value_of(panel, &series->points[k]);
        if (value > 0)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" fill=\"%s\"/>\n",
                    x_position(panel, series->points[k].x), y_position(panel, value), color);
    }
}

static void draw_panel(FILE *file, struct panel *panel)
{
    if (!fit(panel))
        return;
    draw_x_axis(file, panel);
    draw_y_axis(file, panel);
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
            "stroke=\"#555\"/>\n",
            panel->left, MARGIN_TOP, PANEL_WIDTH, PANEL_HEIGHT);
    for (int i = 0; i < series_count; i++)
        draw_series(file, panel, i);
}

static void draw_legend(FILE *file, double top)
{
    for (int i = 0; i < series_count; i++) {
        double x = MARGIN_LEFT + i % LEGEND_COLUMNS * LEGEND_COLUMN;
        double y = top + i / LEGEND_COLUMNS * LEGEND_LINE;
        fprintf(file,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2.4\"%s/>\n<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x, y, x + 28, y, colors[i % COLORS], dashes[i / COLORS % DASHES], x + 36, y + 4,
                all_series[i].name);
    }
}

/* The library's name comes from outside: what XML would misread becomes a space. */
static void print_title(FILE *file, const struct job *job)
{
    char title[sizeof job->library + 128];
    /* Some libraries go on, after a comma, about how they were built. */
    int name_length = (int)strcspn(job->library, ",");
    snprintf(title, sizeof title, "%.*s, %d processes on %.40s, best of the batches",
             name_length, job->library, job->size, job->host);
    for (char *cursor = title; *cursor; cursor++)
        if (strchr("<>&", *cursor))
            *cursor = ' ';
    fprintf(file, "<text x=\"%d\" y=\"30\" font-size=\"15\">%s</text>\n", MARGIN_LEFT, title);
}

bool plot_write(const struct job *job, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    int legend_top = MARGIN_TOP + PANEL_HEIGHT + 70;
    int lines = (series_count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    int width = MARGIN_LEFT + 2 * PANEL_WIDTH + PANEL_GAP + 40;
    int height = legend_top + lines * LEGEND_LINE + 10;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    print_title(file, job);
    struct panel times = {.title = "Time over size", .unit = "time in microseconds",
                          .left = MARGIN_LEFT};
    struct panel bandwidths = {.title = "Bandwidth over size",
                               .unit = "bandwidth in MB/s (1 MB = 1000000 bytes)",
                               .shows_bandwidth = true,
                               .left = MARGIN_LEFT + PANEL_WIDTH + PANEL_GAP};
    draw_panel(file, &times);
    draw_panel(file, &bandwidths);
    draw_legend(file, legend_top);
    fputs("</svg>\n", file);
    bool written = !ferror(file);
    return fclose(file) == 0 && written;
}
