/* An OpenAI chat provider that is never the bottleneck: one thread, epoll, HTTP/1.1 keep-alive, one send() per event.
 *
 * The model's name is the script: bench-paced-TEXTS-FRAGMENTS sends one event per period, bench-burst-TEXTS-FRAGMENTS
 * sends as fast as the peer reads, bench-json-0-CALLS answers with one small body. A stream is TEXTS prose events, then
 * (if FRAGMENTS > 0) one tool call with its arguments in FRAGMENTS pieces, then finish, usage and [DONE]; a paced stream
 * sends the last three together, as providers do.
 *
 * Every response has an id and a call id of its own, so a proxy that refuses replayed calls sees none. Every event says
 * what it is, where it belongs and when it left: system_fingerprint = "fp_" KIND SEQUENCE "_" NANOSECONDS, with a kind
 * of t(ext), c(all), f(inish) or u(sage), four digits, and nineteen digits of CLOCK_MONOTONIC. All fields that vary
 * have a fixed width, so every response of one script has the same length in bytes.
 *
 * usage: provider [PORT]      listens on 127.0.0.1 (0 = any free port) and prints "PORT n"
 * GET /stats answers with counters as JSON.
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
#include <time.h>
#include <unistd.h>

enum {
    PERIOD_NS = 20 * 1000 * 1000, /* 50 events a second */
    BURST_BUDGET = 16,            /* events per connection before the next one has its turn */
    MAX_CONNECTIONS = 16384,      /* by file descriptor */
    MAX_REQUEST = 64 * 1024,
    MAX_PENDING = 1024 * 1024, /* unsent bytes of one connection; a peer that reads slower than this is cut */
    MAX_EVENT = 1024,
    MAX_TEXTS = 9000, /* the sequence number has four digits */
    MAX_FRAGMENTS = 900,
    WORDS = 8,
};

/* Response bytes with the offsets of the fields that are filled in when it is sent; -1 = it has no such field. */
typedef struct {
    char bytes[MAX_EVENT];
    int length, id, call, sequence, time;
} Template;

typedef enum { IDLE, PACED, BURST } Mode;

typedef struct Connection {
    int fd;
    Mode mode;
    int texts, fragments, index;                   /* the script, and the next event of it */
    uint64_t serial;                               /* of the response */
    int64_t start, due;                            /* monotonic ns */
    struct Connection *before, *after;             /* neighbours in the schedule */
    int scheduled;
    char *pending;                                 /* bytes the socket did not take */
    int pending_length, pending_sent;
    int request_length;
    char request[MAX_REQUEST + 1];
} Connection;

static int poller;
static Connection *connections[MAX_CONNECTIONS];
static Connection schedule = {.before = &schedule, .after = &schedule}; /* a ring, soonest first */
static Template opening, texts[WORDS], call_head, first_fragment, fragment, last_fragment;
static Template finish_call, finish_stop, usage, done, json_text, json_call;
static uint64_t serials;
static long open_connections, streaming, started, completed, aborted;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- templates ------------------------------------------------------------------------------------------------- */

#define STAMP "0000_0000000000000000000"
#define SERIAL "0000000000000000"
#define HEAD(KIND)                                                                                                     \
    "{\"id\":\"chatcmpl-" SERIAL "\",\"object\":\"chat.completion.chunk\",\"created\":1764460800,\"model\":\"bench\"," \
    "\"service_tier\":\"default\",\"system_fingerprint\":\"fp_" KIND STAMP "\",\"choices\":["
#define TAIL "],\"usage\":null}"
#define CHOICE(DELTA, REASON) "{\"index\":0,\"delta\":{" DELTA "},\"logprobs\":null,\"finish_reason\":" REASON "}"
#define PIECE(TEXT) "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"" TEXT "\"}}]"
#define CALL(ARGUMENTS)                                                                                                \
    "\"id\":\"call_" SERIAL "\",\"type\":\"function\",\"function\":{\"name\":\"run_shell\",\"arguments\":\"" ARGUMENTS "\"}"
#define USAGE                                                                                                          \
    "\"usage\":{\"prompt_tokens\":420,\"completion_tokens\":81,\"total_tokens\":501,"                                  \
    "\"prompt_tokens_details\":{\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}"
#define BODY(MESSAGE, REASON)                                                                                          \
    "{\"id\":\"chatcmpl-" SERIAL "\",\"object\":\"chat.completion\",\"created\":1764460800,\"model\":\"bench\","       \
    "\"service_tier\":\"default\",\"system_fingerprint\":\"fp_u" STAMP "\",\"choices\":[{\"index\":0,"                 \
    "\"message\":{\"role\":\"assistant\"," MESSAGE "},\"logprobs\":null,\"finish_reason\":" REASON "}]," USAGE

static int offset_after(const Template *t, const char *mark, int skip) {
    const char *at = strstr(t->bytes, mark);
    return at ? (int)(at - t->bytes) + (int)strlen(mark) + skip : -1;
}

static void locate_fields(Template *t) {
    t->length = (int)strlen(t->bytes);
    t->id = offset_after(t, "chatcmpl-", 0);
    t->call = offset_after(t, "\"call_", 0);
    t->sequence = offset_after(t, "\"fp_", 1);
    t->time = t->sequence < 0 ? -1 : t->sequence + 5;
}

/* One SSE block in one HTTP chunk; the last one of a stream carries the closing chunk too. */
static void make_event(Template *t, const char *data, const char *closing) {
    int block = (int)strlen(data) + 8; /* "data: " and the blank line */
    snprintf(t->bytes, sizeof t->bytes, "%x\r\ndata: %s\n\n\r\n%s", (unsigned)block, data, closing);
    locate_fields(t);
}

static void make_body(Template *t, const char *body) {
    snprintf(t->bytes, sizeof t->bytes,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_bench\r\n"
             "content-length: %zu\r\n\r\n%s", strlen(body), body);
    locate_fields(t);
}

static void make_templates(void) {
    static const char *words[WORDS] = {" the", " quick", " brown", " function", " returns", " value", " of", " stream"};
    char data[MAX_EVENT / 2];
    make_event(&opening, HEAD("t") CHOICE("\"role\":\"assistant\",\"content\":\"So\"", "null") TAIL, "");
    for (int i = 0; i < WORDS; i++) {
        snprintf(data, sizeof data, HEAD("t") CHOICE("\"content\":\"%s\"", "null") TAIL, words[i]);
        make_event(&texts[i], data, "");
    }
    make_event(&call_head, HEAD("c") CHOICE("\"tool_calls\":[{\"index\":0," CALL("") "}]", "null") TAIL, "");
    make_event(&first_fragment, HEAD("c") CHOICE(PIECE("{\\\"command\\\":\\\"ls"), "null") TAIL, "");
    make_event(&fragment, HEAD("c") CHOICE(PIECE(" /srv/a"), "null") TAIL, "");
    make_event(&last_fragment, HEAD("c") CHOICE(PIECE(" -la\\\"}"), "null") TAIL, "");
    make_event(&finish_call, HEAD("f") CHOICE("", "\"tool_calls\"") TAIL, "");
    make_event(&finish_stop, HEAD("f") CHOICE("", "\"stop\"") TAIL, "");
    make_event(&usage, HEAD("u") "]," USAGE, "");
    make_event(&done, "[DONE]", "0\r\n\r\n");
    make_body(&json_text, BODY("\"content\":\"The quick brown function returns the value of the stream, as asked.\","
                               "\"refusal\":null,\"annotations\":[]", "\"stop\""));
    make_body(&json_call, BODY("\"content\":null,\"refusal\":null,\"tool_calls\":[{"
                               CALL("{\\\"command\\\":\\\"ls -la\\\"}") "}]", "\"tool_calls\""));
}

/* ---- the script of one stream ---------------------------------------------------------------------------------- */

static int finish_index(const Connection *c) { return c->texts + (c->fragments ? 1 + c->fragments : 0); }
static int event_count(const Connection *c) { return finish_index(c) + 3; }

static const Template *event_at(const Connection *c, int index) {
    if (index < c->texts) return index ? &texts[index % WORDS] : &opening;
    int tail = index - finish_index(c);
    if (tail == 0) return c->fragments ? &finish_call : &finish_stop;
    if (tail == 1) return &usage;
    if (tail == 2) return &done;
    int piece = index - c->texts;
    if (piece == 0) return &call_head;
    if (piece == 1) return &first_fragment;
    return piece == c->fragments ? &last_fragment : &fragment;
}

static int64_t due_at(const Connection *c, int index) {
    int finish = finish_index(c);
    return c->start + (int64_t)(index < finish ? index : finish) * PERIOD_NS;
}

/* ---- schedule: a sorted ring, filled from its far end. All paced streams share one period, so the place is there. -- */

static void unschedule(Connection *c) {
    if (!c->scheduled) return;
    c->before->after = c->after;
    c->after->before = c->before;
    c->scheduled = 0;
}

static void schedule_at(Connection *c, int64_t due) {
    Connection *place = schedule.before;
    while (place != &schedule && place->due > due) place = place->before;
    c->due = due;
    c->before = place;
    c->after = place->after;
    place->after->before = c;
    place->after = c;
    c->scheduled = 1;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static void watch(const Connection *c, int operation) {
    struct epoll_event interest = {.events = EPOLLIN | (c->pending ? EPOLLOUT : 0), .data.fd = c->fd};
    epoll_ctl(poller, operation, c->fd, &interest);
}

static void close_connection(Connection *c) {
    if (c->mode != IDLE) aborted++, streaming--;
    unschedule(c);
    connections[c->fd] = NULL;
    close(c->fd);
    free(c->pending);
    free(c);
    open_connections--;
}

/* Keep what the socket did not take. */
static int defer(Connection *c, const char *bytes, int length) {
    int kept = c->pending_length - c->pending_sent;
    if (kept + length > MAX_PENDING) return -1;
    char *grown = malloc((size_t)(kept + length));
    if (!grown) return -1;
    if (kept) memcpy(grown, c->pending + c->pending_sent, (size_t)kept);
    memcpy(grown + kept, bytes, (size_t)length);
    int was_pending = c->pending != NULL;
    free(c->pending);
    c->pending = grown;
    c->pending_length = kept + length;
    c->pending_sent = 0;
    if (!was_pending) watch(c, EPOLL_CTL_MOD);
    return 0;
}

static int send_bytes(Connection *c, const char *bytes, int length) {
    ssize_t sent = 0;
    if (!c->pending) {
        sent = send(c->fd, bytes, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) return -1;
        if (sent < 0) sent = 0;
    }
    return sent == length ? 0 : defer(c, bytes + sent, length - (int)sent);
}

static int send_pending(Connection *c) {
    ssize_t sent = send(c->fd, c->pending + c->pending_sent, (size_t)(c->pending_length - c->pending_sent),
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN ? 0 : -1;
    c->pending_sent += (int)sent;
    if (c->pending_sent == c->pending_length) {
        free(c->pending);
        c->pending = NULL;
        c->pending_length = c->pending_sent = 0;
        watch(c, EPOLL_CTL_MOD);
    }
    return 0;
}

static void put_decimal(char *at, int width, uint64_t value) {
    for (int i = width - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
}

static void put_hex(char *at, uint64_t value) {
    for (int i = 15; i >= 0; i--, value >>= 4) at[i] = "0123456789abcdef"[value & 15];
}

static int send_template(Connection *c, const Template *t) {
    char bytes[MAX_EVENT];
    memcpy(bytes, t->bytes, (size_t)t->length);
    if (t->id >= 0) put_hex(bytes + t->id, c->serial);
    if (t->call >= 0) put_hex(bytes + t->call, c->serial);
    if (t->sequence >= 0) {
        put_decimal(bytes + t->sequence, 4, (uint64_t)c->index);
        put_decimal(bytes + t->time, 19, (uint64_t)now());
    }
    return send_bytes(c, bytes, t->length);
}

/* Send what is due and come back for the rest. A paced stream falls behind nobody: what a slow peer does not take is
 * kept with the time at which it was offered. A burst stops there, and goes on when the socket has room. */
static int advance(Connection *c, int64_t time) {
    int budget = BURST_BUDGET;
    while (c->mode == PACED ? due_at(c, c->index) <= time : !c->pending && budget-- > 0) {
        if (send_template(c, event_at(c, c->index)) < 0) return -1;
        if (++c->index == event_count(c)) {
            c->mode = IDLE;
            completed++, streaming--;
            return 0;
        }
    }
    if (c->mode == PACED) schedule_at(c, due_at(c, c->index));
    else if (!c->pending) schedule_at(c, time + 1);
    return 0;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* Length of the first complete request in the buffer, 0 if there is none yet. */
static int request_extent(Connection *c) {
    static const char last_chunk[] = "\r\n0\r\n\r\n";
    c->request[c->request_length] = 0;
    char *end = strstr(c->request, "\r\n\r\n");
    if (!end) return 0;
    int head = (int)(end - c->request) + 4, extent = head;
    *end = 0;
    const char *length = strcasestr(c->request, "\ncontent-length:");
    const char *chunked = strcasestr(c->request, "\ntransfer-encoding:");
    *end = '\r';
    if (length) extent = head + atoi(length + 16);
    else if (chunked) {
        const char *last = strstr(c->request + head - 2, last_chunk);
        if (!last) return 0;
        extent = (int)(last - c->request) + (int)sizeof last_chunk - 1;
    }
    return extent <= c->request_length ? extent : 0;
}

static int answer_json(Connection *c, const char *body) {
    char bytes[MAX_EVENT];
    int length = snprintf(bytes, sizeof bytes,
                          "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                          strlen(body), body);
    return send_bytes(c, bytes, length);
}

static int answer_stats(Connection *c) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"connections\":%ld,\"streaming\":%ld,\"started\":%ld,\"completed\":%ld,\"aborted\":%ld}",
             open_connections, streaming, started, completed, aborted);
    return answer_json(c, body);
}

static int start_stream(Connection *c, Mode mode) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
        "x-request-id: req_bench\r\nopenai-processing-ms: 120\r\ntransfer-encoding: chunked\r\n\r\n";
    if (send_bytes(c, head, sizeof head - 1) < 0) return -1;
    c->mode = mode;
    c->start = now();
    started++, streaming++;
    return advance(c, c->start);
}

/* One fragment alone would not be the whole argument object. */
static int is_sane(const Connection *c, const char *mode) {
    if (c->texts < 0 || c->texts > MAX_TEXTS || c->fragments < 0 || c->fragments > MAX_FRAGMENTS) return 0;
    return c->fragments != 1 || !strcmp(mode, "json");
}

static int answer(Connection *c, const char *request) {
    char mode[8] = "";
    const char *model = strstr(request, "bench-");
    if (!strncmp(request, "GET /stats", 10)) return answer_stats(c);
    c->texts = c->fragments = 0;
    if (!model || sscanf(model, "bench-%7[a-z]-%d-%d", mode, &c->texts, &c->fragments) != 3 || !is_sane(c, mode))
        return answer_json(c, "{\"object\":\"list\",\"data\":[]}");
    c->serial = ++serials;
    c->index = 0;
    if (!strcmp(mode, "json")) return send_template(c, c->fragments ? &json_call : &json_text);
    return start_stream(c, strcmp(mode, "paced") ? BURST : PACED);
}

static int answer_requests(Connection *c) {
    int extent;
    while (c->mode == IDLE && (extent = request_extent(c)) > 0) {
        char following = c->request[extent];
        c->request[extent] = 0;
        if (answer(c, c->request) < 0) return -1;
        c->request[extent] = following;
        c->request_length -= extent;
        memmove(c->request, c->request + extent, (size_t)c->request_length);
    }
    return c->request_length < MAX_REQUEST ? 0 : -1;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        Connection *c = fd < MAX_CONNECTIONS ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->fd = fd;
        connections[fd] = c;
        open_connections++;
        watch(c, EPOLL_CTL_ADD);
    }
}

static int serve(Connection *c, uint32_t ready) {
    if (ready & EPOLLERR) return -1;
    if (ready & EPOLLOUT && c->pending) {
        if (send_pending(c) < 0) return -1;
        if (c->mode == BURST && !c->pending && !c->scheduled) schedule_at(c, now());
    }
    if (ready & (EPOLLIN | EPOLLHUP)) {
        ssize_t got = recv(c->fd, c->request + c->request_length, (size_t)(MAX_REQUEST - c->request_length), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) return -1;
        if (got > 0) c->request_length += (int)got;
        return answer_requests(c);
    }
    return 0;
}

static void send_due(void) {
    int64_t time = now();
    while (schedule.after != &schedule && schedule.after->due <= time) {
        Connection *c = schedule.after;
        unschedule(c);
        if (advance(c, time) < 0 || answer_requests(c) < 0) close_connection(c);
    }
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("provider");
        exit(1);
    }
    printf("PORT %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* never outlive the harness */
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns: the default of 50 us would show in the pace */
    make_templates();
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 0);
    poller = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &interest);
    for (;;) {
        struct epoll_event ready[512];
        struct timespec wait, *timeout = NULL;
        if (schedule.after != &schedule) {
            int64_t left = schedule.after->due - now();
            if (left < 0) left = 0;
            wait = (struct timespec){left / 1000000000, left % 1000000000};
            timeout = &wait;
        }
        int count = epoll_pwait2(poller, ready, 512, timeout, NULL);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) accept_all(listener);
            else if (connections[fd] && serve(connections[fd], ready[i].events) < 0) close_connection(connections[fd]);
        }
        send_due();
    }
}
