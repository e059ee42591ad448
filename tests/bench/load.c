/* A load client that is never the bottleneck: one thread, epoll, N keep-alive connections in a closed loop.
 *
 * Each connection asks again as soon as its answer is complete. It reads the stamps that provider.c puts into every
 * event, so it knows how long each event was on its way, whether one is missing, doubled or out of order, and whether a
 * tool call's first byte came before the provider had finished the turn. Times go to log-linear histograms (error below
 * 1 %), so memory does not grow with the run.
 *
 * Counted in the window: what arrives between warm-up and end. After the end no new request is made, and the running
 * ones are read to their end for at most DRAIN_MS, so that "lost" means lost and not cut by the clock.
 *
 * usage: load IPV4 PORT REQUEST_FILE CONNECTIONS SPREAD_MS WARM_MS WINDOW_MS DRAIN_MS EVENTS [abort]
 *   SPREAD_MS  the first requests are spread over this time; EVENTS = events of one stream, 0 = JSON bodies
 *   abort      close all connections at the end of the window, say ABORTED and report
 * Prints START and END as the window opens and closes, then one line of JSON with times in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_REQUEST = 64 * 1024,
    MAX_HEAD = 8 * 1024,
    MAX_LINE = 4 * 1024,
    MAX_FAILURES = 2000, /* then the target is down and the phase over */
    SAMPLE = 240,
    READ_SIZE = 256 * 1024,
    SUB_BUCKETS = 128, /* per power of two */
    BUCKETS = 44 * SUB_BUCKETS,
};
#define MS 1000000LL
#define NEVER INT64_MAX

/* ---- histogram ------------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t count, buckets[BUCKETS];
    int64_t max;
} Histogram;

static void add(Histogram *h, int64_t ns) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    int shift = value < SUB_BUCKETS ? 0 : 56 - __builtin_clzll(value);
    uint64_t bucket = (uint64_t)shift * SUB_BUCKETS + (value >> shift);
    h->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    h->count++;
    if (ns > h->max) h->max = ns;
}

static double quantile_us(const Histogram *h, double q) {
    uint64_t wanted = (uint64_t)(q * (double)(h->count - 1)) + 1, seen = 0;
    int64_t bucket = 0;
    while ((seen += h->buckets[bucket]) < wanted) bucket++;
    int64_t shift = bucket < 2 * SUB_BUCKETS ? 0 : bucket / SUB_BUCKETS - 1;
    return (double)((bucket - shift * SUB_BUCKETS) << shift) / 1e3;
}

static void print_histogram(const char *name, const Histogram *h) {
    if (!h->count) printf("\"%s\":null,", name);
    else
        printf("\"%s\":{\"n\":%lu,\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f},", name, (unsigned long)h->count,
               quantile_us(h, 0.5), quantile_us(h, 0.99), quantile_us(h, 0.999), (double)h->max / 1e3);
}

/* ---- state ----------------------------------------------------------------------------------------------------- */

typedef enum { WAITING, READING_HEAD, READING_BODY } State;
typedef enum { BY_LENGTH, BY_CHUNKS, BY_CLOSE } Framing;
typedef enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER } ChunkState;

typedef struct {
    int fd;
    State state;
    int64_t begin;                     /* when WAITING: time of the next request */
    int64_t asked, first_event, first_call; /* times of this answer, 0 = not yet */
    int64_t usage_sent;
    int status, next_sequence, is_done, is_blocked, must_close;
    long body_bytes;
    Framing framing;
    ChunkState chunk;
    int64_t left;                      /* bytes of the body or of the chunk */
    int head_length, line_length;      /* line: of the body, or a chunk's size line while that is read */
    char head[MAX_HEAD + 1], line[MAX_LINE];
    int size_length;
    char size_line[32];
} Connection;

static Connection *connections;
static struct sockaddr_in target;
static char request[MAX_REQUEST], input[READ_SIZE];
static int poller, request_length, connection_count, expected_events;
static int64_t window_start, window_end, next_begin;
static Histogram first_event, text_latency, call_latency, release, turn_end, answer_time;
static long asked, answers, window_answers, events, calls_early, calls_late, lost, disordered, blocked, bad_status;
static long broken, connect_failed, malformed, shortest = -1, longest = -1;
static char sample[SAMPLE + 1];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int in_window(int64_t time) { return time >= window_start && time <= window_end; }
static long failures(void) { return blocked + bad_status + broken + connect_failed + malformed; }

/* Keep the first unexpected text for the reader, as harmless one-line ASCII. */
static void keep_sample(const char *text, int length) {
    if (sample[0]) return;
    for (int i = 0; i < length && i < SAMPLE; i++)
        sample[i] = text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' ? ' ' : text[i];
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static void wait_until(Connection *c, int64_t begin) {
    c->state = WAITING;
    c->begin = begin;
    if (begin < next_begin) next_begin = begin;
}

static void disconnect(Connection *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

static int connect_to_target(Connection *c) {
    static const struct timeval patience = {.tv_sec = 2};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0) return -1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* connect() obeys it too */
    struct epoll_event interest = {.events = EPOLLIN, .data.u32 = (uint32_t)(c - connections)};
    if (connect(c->fd, (struct sockaddr *)&target, sizeof target) ||
        epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &interest)) {
        disconnect(c);
        return -1;
    }
    return 0;
}

static void ask(Connection *c) {
    if (c->fd < 0 && connect_to_target(c) < 0) {
        connect_failed++;
        wait_until(c, now() + 10 * MS);
        return;
    }
    c->state = READING_HEAD;
    c->first_event = c->first_call = c->usage_sent = c->body_bytes = 0;
    c->status = c->next_sequence = c->is_done = c->is_blocked = c->must_close = 0;
    c->head_length = c->line_length = c->size_length = 0;
    c->asked = now();
    asked++;
    if (send(c->fd, request, (size_t)request_length, MSG_NOSIGNAL) != request_length) {
        broken++;
        disconnect(c);
        wait_until(c, now() + 10 * MS);
    }
}

static void ask_again(Connection *c, int64_t time) {
    if (time < window_end) ask(c);
    else wait_until(c, NEVER);
}

/* The answer is complete: judge it, count it, and ask again. */
static void complete(Connection *c, int64_t time) {
    answers++;
    if (c->status != 200) {
        bad_status++;
        keep_sample(c->line, c->line_length);
    } else if (c->is_blocked) {
        blocked++;
    } else if (expected_events && (!c->is_done || c->next_sequence != expected_events - 1)) {
        lost += expected_events - c->next_sequence - c->is_done;
    } else {
        if (shortest < 0 || c->body_bytes < shortest) shortest = c->body_bytes;
        if (c->body_bytes > longest) longest = c->body_bytes;
        if (in_window(time)) window_answers++;
        if (c->asked >= window_start) add(&answer_time, time - c->asked);
    }
    if (c->must_close) disconnect(c);
    ask_again(c, time);
}

static void give_up(Connection *c, long *counter) {
    (*counter)++;
    if (expected_events) lost += expected_events - c->next_sequence - c->is_done;
    disconnect(c);
    wait_until(c, now() + 10 * MS);
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

static int64_t decimal(const char *at, int width) {
    int64_t value = 0;
    for (int i = 0; i < width; i++) value = value * 10 + (at[i] - '0');
    return value;
}

static void read_stamp(Connection *c, const char *stamp, int64_t time) {
    char kind = stamp[0];
    int64_t sent = decimal(stamp + 6, 19);
    if (decimal(stamp + 1, 4) != c->next_sequence) disordered++;
    c->next_sequence++;
    if (kind == 'u') c->usage_sent = sent;
    if (kind == 'c' && !c->first_call) c->first_call = time;
    if (in_window(time)) {
        if (kind == 't') add(&text_latency, time - sent);
        if (kind == 'c') add(&call_latency, time - sent);
    }
}

/* [DONE]: the provider sent it right after the usage event, which says when. */
static void end_turn(Connection *c, int64_t time) {
    c->is_done = 1;
    if (!c->usage_sent) return;
    if (in_window(time)) add(&turn_end, time - c->usage_sent);
    if (!c->first_call) return;
    if (c->first_call < c->usage_sent) {
        calls_early++;
    } else {
        calls_late++;
        if (in_window(time)) add(&release, c->first_call - c->usage_sent);
    }
}

static void read_line(Connection *c, const char *line, int length, int64_t time) {
    static const char mark[] = "\"fp_";
    if (length < 7 || memcmp(line, "data: ", 6)) return; /* blank lines, comments, event names */
    const char *stamp = memmem(line, (size_t)length, mark, 4);
    if (stamp && stamp + 4 + 25 <= line + length) {
        read_stamp(c, stamp + 4, time);
    } else if (length >= 12 && !memcmp(line + 6, "[DONE]", 6)) {
        end_turn(c, time);
    } else { /* an event of the target's own making: a refusal */
        c->is_blocked = 1;
        keep_sample(line, length);
        return;
    }
    if (in_window(time)) events++;
    if (!c->first_event) {
        c->first_event = time;
        if (c->asked >= window_start && c->asked <= window_end) add(&first_event, time - c->asked);
    }
}

/* ---- HTTP ------------------------------------------------------------------------------------------------------ */

/* Body bytes, in pieces of any size. Only a line that is split over two pieces is copied. Returns -1 if one is too long. */
static int read_body(Connection *c, const char *bytes, int length, int64_t time) {
    c->body_bytes += length;
    int is_stream = expected_events && c->status == 200;
    while (length > 0) {
        const char *end = is_stream ? memchr(bytes, '\n', (size_t)length) : NULL;
        int taken = end ? (int)(end - bytes) : length;
        if (end && !c->line_length) {
            read_line(c, bytes, taken, time);
        } else if (c->line_length + taken <= MAX_LINE) {
            memcpy(c->line + c->line_length, bytes, (size_t)taken);
            c->line_length += taken;
            if (end) read_line(c, c->line, c->line_length, time), c->line_length = 0;
        } else if (is_stream) {
            return -1;
        }
        bytes += taken + (end != NULL);
        length -= taken + (end != NULL);
    }
    return 0;
}

/* Takes the head's bytes from the input; returns how many, or -1. */
static int read_head(Connection *c, const char *bytes, int length) {
    int before = c->head_length, room = MAX_HEAD - before, taken = length < room ? length : room;
    memcpy(c->head + before, bytes, (size_t)taken);
    c->head_length += taken;
    c->head[c->head_length] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return c->head_length < MAX_HEAD ? taken : -1;
    end[2] = 0;
    const char *size = strcasestr(c->head, "\ncontent-length:");
    c->status = c->head_length > 12 ? atoi(c->head + 9) : 0;
    c->must_close = strcasestr(c->head, "\nconnection: close") != NULL;
    c->framing = strcasestr(c->head, "\ntransfer-encoding: chunked") ? BY_CHUNKS : size ? BY_LENGTH : BY_CLOSE;
    c->left = size ? atoll(size + 16) : 0;
    c->chunk = CHUNK_SIZE;
    c->state = READING_BODY;
    return (int)(end - c->head) + 4 - before;
}

/* One step of chunked coding; returns the bytes used, -1 on nonsense. Sets the state to WAITING at the end. */
static int read_chunked(Connection *c, const char *bytes, int length, int64_t time) {
    if (c->chunk == CHUNK_DATA) {
        int taken = length < c->left ? length : (int)c->left;
        if (read_body(c, bytes, taken, time) < 0) return -1;
        if (!(c->left -= taken)) c->chunk = CHUNK_END;
        return taken;
    }
    if (*bytes != '\n') { /* inside a size, its line end, or a trailer line */
        if (*bytes == '\r') return 1;
        if (c->size_length == (int)sizeof c->size_line - 1) return -1;
        c->size_line[c->size_length++] = *bytes;
        return 1;
    }
    c->size_line[c->size_length] = 0;
    if (c->chunk == CHUNK_SIZE) {
        c->left = strtol(c->size_line, NULL, 16);
        c->chunk = c->left ? CHUNK_DATA : TRAILER;
    } else if (c->chunk == CHUNK_END) {
        c->chunk = CHUNK_SIZE;
    } else if (!c->size_length) {
        c->state = WAITING;
    }
    c->size_length = 0;
    return 1;
}

static int read_sized(Connection *c, const char *bytes, int length, int64_t time) {
    int taken = c->framing == BY_LENGTH && c->left < length ? (int)c->left : length;
    if (read_body(c, bytes, taken, time) < 0) return -1;
    c->left -= taken;
    if (c->framing == BY_LENGTH && !c->left) c->state = WAITING;
    return taken;
}

static void receive(Connection *c) {
    ssize_t got = recv(c->fd, input, sizeof input, MSG_DONTWAIT);
    int64_t time = now();
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        if (c->state == WAITING) {
            disconnect(c); /* an idle connection may be closed */
        } else if (got == 0 && c->state == READING_BODY && c->framing == BY_CLOSE) {
            c->must_close = 1;
            complete(c, time);
        } else {
            give_up(c, &broken);
        }
        return;
    }
    const char *bytes = input;
    while (got > 0 && c->state != WAITING) {
        int taken = c->state == READING_HEAD       ? read_head(c, bytes, (int)got)
                    : c->framing == BY_CHUNKS      ? read_chunked(c, bytes, (int)got, time)
                                                   : read_sized(c, bytes, (int)got, time);
        if (taken < 0) {
            give_up(c, &malformed);
            return;
        }
        bytes += taken;
        got -= taken;
        if (c->state == READING_BODY && c->framing == BY_LENGTH && !c->left) c->state = WAITING; /* an empty body */
        if (c->state == WAITING) {
            complete(c, time);
            return; /* without pipelining nothing follows an answer */
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static void ask_where_due(int64_t time) {
    next_begin = NEVER;
    for (int i = 0; i < connection_count; i++) {
        Connection *c = &connections[i];
        if (c->state != WAITING || c->begin == NEVER) continue;
        if (c->begin <= time) ask_again(c, time);
        if (c->state == WAITING && c->begin < next_begin) next_begin = c->begin;
    }
}

/* Wait for answers until the given time at the latest, and read them. */
static void work_until(int64_t deadline) {
    struct epoll_event ready[512];
    int64_t time = now();
    if (next_begin <= time) ask_where_due(time);
    if (next_begin < deadline) deadline = next_begin;
    int64_t left = deadline - now();
    if (left < 0) left = 0;
    struct timespec wait = {left / 1000000000, left % 1000000000};
    int count = epoll_pwait2(poller, ready, 512, &wait, NULL);
    for (int i = 0; i < count; i++) {
        Connection *c = &connections[ready[i].data.u32];
        if (c->fd >= 0) receive(c);
    }
}

static void say(const char *word) {
    puts(word);
    fflush(stdout);
}

static void report(double window_s) {
    int unfinished = 0;
    for (int i = 0; i < connection_count; i++) unfinished += connections[i].fd >= 0 && connections[i].state != WAITING;
    printf("{");
    print_histogram("first_event", &first_event);
    print_histogram("text_latency", &text_latency);
    print_histogram("call_latency", &call_latency);
    print_histogram("release", &release);
    print_histogram("turn_end", &turn_end);
    print_histogram("answer_time", &answer_time);
    printf("\"window_s\":%.3f,\"asked\":%ld,\"answers\":%ld,\"window_answers\":%ld,\"events\":%ld,", window_s, asked, answers,
           window_answers, events);
    printf("\"calls_early\":%ld,\"calls_late\":%ld,\"lost\":%ld,\"disordered\":%ld,\"blocked\":%ld,\"bad_status\":%ld,",
           calls_early, calls_late, lost, disordered, blocked, bad_status);
    printf("\"broken\":%ld,\"connect_failed\":%ld,\"malformed\":%ld,\"unfinished\":%d,", broken, connect_failed, malformed,
           unfinished);
    printf("\"shortest_body\":%ld,\"longest_body\":%ld,\"sample\":\"%s\"}\n", shortest, longest, sample);
}

static void read_request(const char *path) {
    FILE *file = fopen(path, "rb");
    request_length = file ? (int)fread(request, 1, sizeof request, file) : 0;
    if (file) fclose(file);
    if (!request_length) {
        fprintf(stderr, "load: no request in %s\n", path);
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc < 10) {
        fprintf(stderr, "usage: load IPV4 PORT REQUEST_FILE CONNECTIONS SPREAD_MS WARM_MS WINDOW_MS DRAIN_MS EVENTS [abort]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    target = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])), .sin_addr.s_addr = inet_addr(argv[1])};
    read_request(argv[3]);
    connection_count = atoi(argv[4]);
    expected_events = atoi(argv[9]);
    connections = calloc((size_t)connection_count, sizeof *connections);
    poller = epoll_create1(0);
    if (!connections || poller < 0) return 1;
    int64_t begin = now(), spread = atoll(argv[5]) * MS;
    next_begin = NEVER;
    window_start = begin + atoll(argv[6]) * MS;
    window_end = window_start + atoll(argv[7]) * MS;
    for (int i = 0; i < connection_count; i++) {
        connections[i].fd = -1;
        wait_until(&connections[i], begin + spread * i / connection_count);
    }
    while (now() < window_start && failures() < MAX_FAILURES) work_until(window_start);
    say("START");
    while (now() < window_end && failures() < MAX_FAILURES) work_until(window_end);
    double window_s = (double)(now() - window_start) / 1e9;
    if (argc > 10) {
        for (int i = 0; i < connection_count; i++) disconnect(&connections[i]);
        say("ABORTED");
    } else {
        int64_t drain_end = window_end + atoll(argv[8]) * MS;
        say("END");
        for (;;) {
            int running = 0;
            for (int i = 0; i < connection_count; i++) running += connections[i].state != WAITING;
            int64_t time = now();
            if (!running || time >= drain_end) break;
            work_until(time + 20 * MS < drain_end ? time + 20 * MS : drain_end);
        }
    }
    report(window_s);
    return 0;
}
