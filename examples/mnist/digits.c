/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/mnist/images.h"
#include "examples/mnist/rng.h"

/* A point of the image in pixels, y downwards. */
struct point {
    double x, y;
};

enum { MOST_POINTS = 17, PEN_UP = -1 };

/* Strokes of a digit: x and y of each point, in hundredths of a bounding box; a point with x =
 * PEN_UP ends the stroke. */
struct glyph {
    int count;
    signed char xy[2 * MOST_POINTS];
};

static const struct glyph glyphs[IMAGE_CLASSES] = {
    {13, {50, 5,  65, 11, 76, 28, 80, 50, 76, 72, 65, 89, 50,
          95, 35, 89, 24, 72, 20, 50, 24, 28, 35, 11, 50, 5}},
    {3, {32, 25, 55, 5, 55, 95}},
    {9, {20, 30, 25, 12, 45, 5, 68, 10, 78, 28, 70, 48, 45, 70, 20, 95, 82, 95}},
    {11, {22, 15, 45, 5, 70, 12, 75, 28, 65, 43, 45, 48, 68, 54, 78, 72, 68, 90, 45, 95, 20, 87}},
    {6, {60, 5, 18, 62, 84, 62, PEN_UP, 0, 62, 35, 62, 95}},
    {9, {76, 5, 30, 5, 26, 45, 50, 40, 72, 48, 78, 68, 68, 88, 45, 95, 20, 88}},
    {12, {70, 7,  45, 20, 28, 45, 22, 70, 30, 90, 50, 95,
          70, 88, 77, 70, 68, 55, 50, 50, 33, 56, 24, 70}},
    {4, {20, 5, 80, 5, 55, 45, 40, 95}},
    {17, {50, 48, 30, 38, 26, 22, 36, 8,  50, 5,  64, 8,  74, 22, 70, 38, 50,
          48, 27, 60, 22, 78, 32, 92, 50, 95, 68, 92, 78, 78, 73, 60, 50, 48}},
    {11, {75, 30, 66, 45, 48, 50, 30, 44, 23, 28, 32, 10, 50, 5, 68, 11, 75, 30, 72, 60, 60, 95}},
};

/* Variation of one image from the glyph; lengths in pixels. */
struct hand {
    double width, height, slant, cosine, sine;
    double centre_x, centre_y;
    double thickness, ink;
};

/* Counters in an image's random stream: label, variation, two for each point, one for each pixel.
 */
enum { DRAW_LABEL, DRAW_HAND, DRAW_POINTS = 16, DRAW_NOISE = 64 };

static struct hand draw_hand(uint64_t stream)
{
    uint64_t next = DRAW_HAND;
    struct hand hand;
    hand.width = rng_uniform(stream, next++, 14.0, 20.0);
    hand.height = rng_uniform(stream, next++, 17.0, 21.0);
    hand.slant = rng_uniform(stream, next++, -0.15, 0.35);
    double turn = rng_uniform(stream, next++, -0.15, 0.15);
    hand.cosine = cos(turn);
    hand.sine = sin(turn);
    hand.centre_x = rng_uniform(stream, next++, 12.0, 15.0);
    hand.centre_y = rng_uniform(stream, next++, 12.0, 15.0);
    hand.thickness = rng_uniform(stream, next++, 0.7, 1.6);
    hand.ink = rng_uniform(stream, next, 190.0, 255.0);
    return hand;
}

/* Computes the positions of a glyph's points on the image, each with a small random offset. */
static void place(const struct glyph *glyph, const struct hand *hand, uint64_t stream,
                  struct point *placed)
{
    for (int i = 0; i < glyph->count; i++) {
        uint64_t counter = DRAW_POINTS + 2 * (uint64_t)i;
        double x = glyph->xy[2 * i] / 100.0 - 0.5 + rng_uniform(stream, counter, -0.04, 0.04);
        double y =
            glyph->xy[2 * i + 1] / 100.0 - 0.5 + rng_uniform(stream, counter + 1, -0.04, 0.04);
        x = x * hand->width - y * hand->slant * hand->height;
        y = y * hand->height;
        placed[i].x = hand->centre_x + hand->cosine * x - hand->sine * y;
        placed[i].y = hand->centre_y + hand->sine * x + hand->cosine * y;
    }
}

static double distance_to_segment(double x, double y, struct point from, struct point to)
{
    double along_x = to.x - from.x, along_y = to.y - from.y;
    double length_squared = along_x * along_x + along_y * along_y + 1e-9;
    double t = ((x - from.x) * along_x + (y - from.y) * along_y) / length_squared;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    x -= from.x + t * along_x;
    y -= from.y + t * along_y;
    return sqrt(x * x + y * y);
}

static int clamp_to_image(double coordinate)
{
    return coordinate < 0 ? 0 : coordinate > IMAGE_SIDE - 1 ? IMAGE_SIDE - 1 : (int)coordinate;
}

/* Draws one segment, with an antialiased edge one pixel wide. A pixel keeps its value if that is
 * larger. */
static void draw_segment(uint8_t *pixels, struct point from, struct point to, double thickness,
                         double ink)
{
    double reach = thickness + 1.0;
    int top = clamp_to_image(fmin(from.y, to.y) - reach);
    int bottom = clamp_to_image(fmax(from.y, to.y) + reach);
    int left = clamp_to_image(fmin(from.x, to.x) - reach);
    int right = clamp_to_image(fmax(from.x, to.x) + reach);
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            double cover = thickness + 0.5 - distance_to_segment(x, y, from, to);
            cover = cover < 0 ? 0 : cover > 1 ? 1 : cover;
            uint8_t value = (uint8_t)(cover * ink);
            if (value > pixels[y * IMAGE_SIDE + x])
                pixels[y * IMAGE_SIDE + x] = value;
        }
    }
}

static void add_noise(uint8_t *pixels, uint64_t stream)
{
    for (int i = 0; i < IMAGE_PIXELS; i++) {
        uint64_t bits = rng_bits(stream, DRAW_NOISE + (uint64_t)i);
        int value = pixels[i] + (int)(bits % 41) - 20;
        pixels[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static uint8_t draw_digit(uint64_t stream, uint8_t *pixels)
{
    struct point placed[MOST_POINTS];
    uint8_t label = (uint8_t)(rng_bits(stream, DRAW_LABEL) % IMAGE_CLASSES);
    struct hand hand = draw_hand(stream);
    const struct glyph *glyph = &glyphs[label];
    place(glyph, &hand, stream, placed);
    memset(pixels, 0, IMAGE_PIXELS);
    for (int i = 1; i < glyph->count; i++)
        if (glyph->xy[2 * (i - 1)] != PEN_UP && glyph->xy[2 * i] != PEN_UP)
            draw_segment(pixels, placed[i - 1], placed[i], hand.thickness, hand.ink);
    add_noise(pixels, stream);
    return label;
}

bool digits_draw(int first, int count, struct image_set *set)
{
    set->count = count;
    set->pixels = malloc((size_t)count * IMAGE_PIXELS);
    set->labels = malloc((size_t)count);
    if (set->pixels == NULL || set->labels == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        uint64_t stream = rng_stream(0, RNG_DIGITS, (uint64_t)first + (uint64_t)i);
        set->labels[i] = draw_digit(stream, set->pixels + (size_t)i * IMAGE_PIXELS);
    }
    return true;
}
