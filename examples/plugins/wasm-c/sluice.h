// sluice.h: what a sink in C needs at the plugin boundary, version 1 (docs/abi): reading a batch of records, and writing
// answers. It needs no allocator but realloc. Everything read points into the request, which is good until the call returns.
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SL_EXPORT(name) __attribute__((export_name(#name)))
#define SL_IMPORT(name) __attribute__((import_module("sluice"), import_name(#name)))

enum { SL_DEBUG = -4, SL_INFO = 0, SL_WARN = 4, SL_ERROR = 8 };
enum { SL_ACCEPT = 1, SL_RETRY = 2, SL_REJECT = 3 };
enum { SL_NONE, SL_TRANSIENT, SL_THROTTLED, SL_UNAVAILABLE, SL_UNKNOWN, SL_FATAL, SL_INVALID };
enum { SL_FORM_DATA = 1, SL_FORM_BYTES = 2 };

SL_IMPORT(log) void sl_host_log(int32_t level, const char *text, size_t size);
SL_IMPORT(results) void sl_host_results(const uint8_t *frame, size_t size);

static inline void sl_log(int32_t level, const char *line) { sl_host_log(level, line, strlen(line)); }

// --- CBOR, reading ---------------------------------------------------------

enum { SL_UINT, SL_NINT, SL_BSTR, SL_TSTR, SL_ARRAY, SL_MAP, SL_TAG, SL_SIMPLE };

// sl_reader reads items one after the other. Once bad is set it reads zeros.
typedef struct {
  const uint8_t *at, *end;
  bool bad;
} sl_reader;

static inline size_t sl_left(const sl_reader *r) { return (size_t)(r->end - r->at); }

static inline uint64_t sl_fail(sl_reader *r) {
  r->bad = true;
  r->at = r->end;
  return 0;
}

// sl_big reads a number of 1, 2, 4 or 8 bytes, the highest first. Loops are what the worker looks for a deadline in, which takes
// time: there is none in what is done for each record.
static inline uint64_t sl_big(const uint8_t *p, size_t size) {
  uint16_t n2;
  uint32_t n4;
  uint64_t n8;
  switch (size) {
  case 1: return *p;
  case 2: memcpy(&n2, p, 2); return __builtin_bswap16(n2);
  case 4: memcpy(&n4, p, 4); return __builtin_bswap32(n4);
  default: memcpy(&n8, p, 8); return __builtin_bswap64(n8);
  }
}

// sl_head reads the head of an item: its major type, and the number in it. Indefinite lengths are not allowed.
static inline uint64_t sl_head(sl_reader *r, int *major) {
  *major = SL_SIMPLE;
  if (r->at == r->end) return sl_fail(r);
  uint8_t first = *r->at++, info = first & 31;
  *major = first >> 5;
  if (info < 24) return info;
  if (info > 27) return sl_fail(r);
  size_t size = (size_t)1 << (info - 24);
  if (sl_left(r) < size) return sl_fail(r);
  r->at += size;
  return sl_big(r->at - size, size);
}

// sl_skip skips items, whatever they hold. It does not recurse.
static inline void sl_skip(sl_reader *r, uint64_t items) {
  while (items > 0 && !r->bad) {
    int major;
    uint64_t n = sl_head(r, &major);
    items--;
    switch (major) {
    case SL_BSTR: case SL_TSTR:
      if (n > sl_left(r)) sl_fail(r);
      else r->at += n;
      break;
    case SL_ARRAY: case SL_MAP: // An item has one byte at least.
      if (n > sl_left(r)) sl_fail(r);
      else items += major == SL_MAP ? 2 * n : n;
      break;
    case SL_TAG:
      items++;
    }
  }
}

static inline uint64_t sl_want(sl_reader *r, int want) {
  int major;
  uint64_t n = sl_head(r, &major);
  return major == want ? n : sl_fail(r);
}

// sl_array begins an array and returns how many items it has.
static inline uint64_t sl_array(sl_reader *r) {
  uint64_t n = sl_want(r, SL_ARRAY);
  return n > sl_left(r) ? sl_fail(r) : n;
}

static inline int64_t sl_int(sl_reader *r) {
  int major;
  uint64_t n = sl_head(r, &major);
  if (major > SL_NINT || n > INT64_MAX) return (int64_t)sl_fail(r);
  return major == SL_UINT ? (int64_t)n : -1 - (int64_t)n;
}

// --- A batch ---------------------------------------------------------------

typedef enum { SL_ABSENT, SL_BYTES, SL_DATA } sl_kind;

// sl_datum is a key or a value: absent (a tombstone's value), bytes, or data: one CBOR array of schema index and value.
typedef struct {
  sl_kind kind;
  const uint8_t *bytes;
  size_t size;
} sl_datum;

typedef struct {
  uint64_t topic; // Into the request's topics, from 0.
  uint64_t partition, offset;
  int64_t timestamp_ms;
  uint8_t timestamp_type; // 0: there is none; 1: the producer's; 2: the broker's.
  sl_datum key, value;
} sl_record;

typedef struct {
  sl_reader r;
  uint64_t records, next;
} sl_batch;

// sl_batch_open begins to read a request and returns how many records it has. Look at b->r.bad after the last one.
static inline uint64_t sl_batch_open(sl_batch *b, const uint8_t *frame, size_t size) {
  *b = (sl_batch){.r = {frame, frame + size, false}};
  if (sl_array(&b->r) < 5 || sl_int(&b->r) != 1) return sl_fail(&b->r);
  sl_skip(&b->r, 3); // Header, topics, schemas.
  return b->records = sl_array(&b->r);
}

static inline sl_datum sl_read_datum(sl_reader *r) {
  const uint8_t *from = r->at;
  if (from != r->end && *from >> 5 == SL_BSTR) {
    uint64_t n = sl_want(r, SL_BSTR);
    if (n > sl_left(r)) return (sl_datum){.size = (size_t)sl_fail(r)};
    r->at += n;
    return (sl_datum){SL_BYTES, r->at - n, (size_t)n};
  }
  if (from != r->end && *from == 0xf6) return r->at++, (sl_datum){0};
  sl_skip(r, 1);
  return (sl_datum){SL_DATA, from, (size_t)(r->at - from)};
}

// sl_batch_next reads the next record.
static inline bool sl_batch_next(sl_batch *b, sl_record *rec) {
  sl_reader *r = &b->r;
  if (b->next == b->records || r->bad) return false;
  b->next++;
  *rec = (sl_record){0};
  uint64_t n = sl_array(r), i = 0;
  if (n == 0) return sl_fail(r);
  rec->topic = (uint64_t)sl_int(r), i++;
  if (i < n) rec->partition = (uint64_t)sl_int(r), i++;
  if (i < n) rec->offset = (uint64_t)sl_int(r), i++;
  if (i < n) rec->timestamp_ms = sl_int(r), i++;
  if (i < n) rec->timestamp_type = (uint8_t)sl_int(r), i++;
  if (i < n) rec->key = sl_read_datum(r), i++;
  if (i < n) rec->value = sl_read_datum(r), i++;
  if (i < n) sl_skip(r, n - i); // Headers, and what later versions add.
  return !r->bad;
}

// --- CBOR, writing ---------------------------------------------------------

typedef struct {
  uint8_t *bytes;
  size_t size, room;
} sl_buffer;

// sl_grow makes room for n more bytes. Out of memory, the module traps: the host starts another instance.
static inline uint8_t *sl_grow(sl_buffer *b, size_t n) {
  if (b->size + n > b->room) {
    size_t room = (b->size + n) * 2;
    uint8_t *bytes = realloc(b->bytes, room);
    if (bytes == NULL) __builtin_trap();
    b->bytes = bytes, b->room = room;
  }
  b->size += n;
  return b->bytes + b->size - n;
}

static inline void sl_put_head(sl_buffer *b, int major, uint64_t n) {
  int info = n < 24 ? (int)n : n <= UINT8_MAX ? 24 : n <= UINT16_MAX ? 25 : n <= UINT32_MAX ? 26 : 27;
  *sl_grow(b, 1) = (uint8_t)(major << 5 | info);
  if (info < 24) return;
  size_t size = (size_t)1 << (info - 24);
  uint8_t *to = sl_grow(b, size);
  for (size_t i = 0; i < size; i++) to[i] = (uint8_t)(n >> 8 * (size - 1 - i));
}

static inline void sl_put_text(sl_buffer *b, const char *text) {
  size_t size = strlen(text);
  sl_put_head(b, SL_TSTR, size);
  memcpy(sl_grow(b, size), text, size);
}

// sl_put_error writes an error: the whole answer of start, check and stop, and the third item of a put's.
static inline void sl_put_error(sl_buffer *b, int class, const char *code, const char *message) {
  sl_put_head(b, SL_ARRAY, 3);
  sl_put_head(b, SL_UINT, (uint64_t)class);
  sl_put_text(b, code);
  sl_put_text(b, message);
}

// sl_answer is where the answer is, as an export returns it. It must stay there until the next call.
static inline uint64_t sl_answer(const sl_buffer *b) { return (uint64_t)(uintptr_t)b->bytes << 32 | b->size; }

#endif
