/* How fast memory is read, in the manner of STREAM: the sum of 64-bit words, by a number of threads.
 *
 *   cc -O3 -march=native -pthread stream_read.c -o stream_read
 *   ./stream_read BYTES READS THREADS...
 *
 * Prints a line for each number of threads: the number, the bytes per second of a plain loop, and those of the best of some other
 * loops, each the best of READS reads. The plain loop leaves all to the compiler and to the processor; the others read two or four
 * places of a piece side by side, with the caches asked ahead or not, since many processors give more to those who do.
 *
 * All read the same memory, which is asked for in large pages and written first. Who is free takes the next piece, so that a thread
 * that another program holds up does not hold up the rest.
 */

#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PIECE_WORDS ((size_t)(2 << 20) / sizeof(uint64_t))
#define MOST_THREADS 1024
#define LARGE_PAGE_BYTES ((size_t)2 << 20)

static const uint64_t *words;
static size_t word_count;
static atomic_size_t next_piece;
static pthread_barrier_t barrier;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct part {
    double start, end;
    uint64_t sum;
};

/* The sum of some words, at STREAMS places side by side. */
typedef uint64_t (*sum_of)(const uint64_t *words, size_t count);

static uint64_t plain(const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += words[i];
    return sum;
}

/* How far ahead the caches are asked, in words, and words of a cache line. */
#define NEAR_WORDS 128
#define FAR_WORDS 384
#define LINE_WORDS 8

/* Always inlined with constants, so that each loop below is its own. */
static inline __attribute__((always_inline)) uint64_t side_by_side(const uint64_t *words, size_t count, size_t streams,
                                                                   int ahead) {
    size_t length = count / streams / LINE_WORDS * LINE_WORDS;
    uint64_t sums[LINE_WORDS] = {0};
    for (size_t i = 0; i < length; i += LINE_WORDS) {
        for (size_t stream = 0; stream < streams; stream++) {
            const uint64_t *line = words + stream * length + i;
            if (ahead) {
                /* To ask for what lies behind the memory does no harm. */
                __builtin_prefetch((const void *)((uintptr_t)line + FAR_WORDS * sizeof *line), 0, 2);
                __builtin_prefetch((const void *)((uintptr_t)line + NEAR_WORDS * sizeof *line), 0, 3);
            }
            for (size_t lane = 0; lane < LINE_WORDS; lane++) sums[lane] += line[lane];
        }
    }
    uint64_t sum = plain(words + streams * length, count - streams * length);
    for (size_t lane = 0; lane < LINE_WORDS; lane++) sum += sums[lane];
    return sum;
}

static uint64_t two(const uint64_t *words, size_t count) { return side_by_side(words, count, 2, 0); }
static uint64_t one_ahead(const uint64_t *words, size_t count) { return side_by_side(words, count, 1, 1); }
static uint64_t two_ahead(const uint64_t *words, size_t count) { return side_by_side(words, count, 2, 1); }
static uint64_t four_ahead(const uint64_t *words, size_t count) { return side_by_side(words, count, 4, 1); }

static const sum_of others[] = {two, one_ahead, two_ahead, four_ahead};
static sum_of sum_words = plain;

static void *run(void *argument) {
    struct part *part = argument;
    uint64_t sum = 0;
    pthread_barrier_wait(&barrier);
    part->start = seconds();
    for (;;) {
        size_t first = atomic_fetch_add(&next_piece, PIECE_WORDS);
        if (first >= word_count) break;
        size_t end = first + PIECE_WORDS < word_count ? first + PIECE_WORDS : word_count;
        sum += sum_words(words + first, end - first);
    }
    part->end = seconds();
    part->sum = sum;
    return NULL;
}

/* Bytes per second of one read; ends the program when the system gives no threads, or a word was not read. */
static double read_once(size_t threads) {
    static pthread_t ids[MOST_THREADS];
    static struct part parts[MOST_THREADS];
    atomic_store(&next_piece, 0);
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0) exit(1);
    for (size_t i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, run, &parts[i]) != 0) {
            fprintf(stderr, "stream_read: the system gives no %zu threads\n", threads);
            exit(1);
        }
    }
    double start = 1e300, end = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        if (parts[i].start < start) start = parts[i].start;
        if (parts[i].end > end) end = parts[i].end;
        sum += parts[i].sum;
    }
    pthread_barrier_destroy(&barrier);
    if (sum != word_count) {
        fprintf(stderr, "stream_read: the sum is %" PRIu64 " instead of %zu\n", sum, word_count);
        exit(1);
    }
    return (double)(word_count * sizeof(uint64_t)) / (end - start);
}

/* The best of some reads by a loop. */
static double best_of(sum_of loop, size_t threads, long reads) {
    double best = 0;
    sum_words = loop;
    /* The first read brings pages and addresses in, and does not count. */
    read_once(threads);
    for (long read = 0; read < reads; read++) {
        double rate = read_once(threads);
        if (rate > best) best = rate;
    }
    return best;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: stream_read BYTES READS THREADS...\n");
        return 2;
    }
    size_t bytes = strtoull(arguments[1], NULL, 10) / sizeof(uint64_t) * sizeof(uint64_t);
    long reads = strtol(arguments[2], NULL, 10);
    if (bytes == 0 || reads < 1) {
        fprintf(stderr, "stream_read: BYTES and READS must be at least 8 and 1\n");
        return 2;
    }
    char *map = mmap(NULL, bytes + LARGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "stream_read: the system gives no %zu bytes\n", bytes);
        return 1;
    }
    uint64_t *memory = (uint64_t *)(((uintptr_t)map + LARGE_PAGE_BYTES - 1) & ~(uintptr_t)(LARGE_PAGE_BYTES - 1));
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    word_count = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < word_count; i++) memory[i] = 1;
    words = memory;
    for (int i = 3; i < count; i++) {
        long threads = strtol(arguments[i], NULL, 10);
        if (threads < 1 || threads > MOST_THREADS) {
            fprintf(stderr, "stream_read: %s threads; there may be 1 to %d\n", arguments[i], MOST_THREADS);
            return 2;
        }
        double simple = best_of(plain, (size_t)threads, reads), best = 0;
        for (size_t way = 0; way < sizeof others / sizeof *others; way++) {
            double rate = best_of(others[way], (size_t)threads, reads);
            if (rate > best) best = rate;
        }
        printf("%ld %.0f %.0f\n", threads, simple, best);
    }
    return 0;
}
