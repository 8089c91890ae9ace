// drop.c: a sink in C. It reads every record, counts them and forgets them; when it stops, it logs how many it had and when its
// first and its last put ended. It is the built-in drop sink without its settings.
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "sluice.h"

static sl_buffer request, answer;
static uint64_t records, bytes;
static struct timespec first, last;

SL_EXPORT(sluice_abi_version) int32_t version(void) { return 1; }

// One call is made at a time, and a request is read by the time the next comes: one buffer is enough.
SL_EXPORT(sluice_alloc) uint8_t *alloc(uint32_t size) {
  request.size = 0;
  return sl_grow(&request, size > 0 ? size : 1);
}

SL_EXPORT(sluice_describe) uint64_t describe(void) {
  answer.size = 0;
  sl_put_head(&answer, SL_MAP, 5);
  sl_put_text(&answer, "abi"), sl_put_head(&answer, SL_UINT, 1);
  sl_put_text(&answer, "name"), sl_put_text(&answer, "drop");
  sl_put_text(&answer, "version"), sl_put_text(&answer, "0.1.0");
  sl_put_text(&answer, "summary"), sl_put_text(&answer, "Counts records and forgets them, in C");
  sl_put_text(&answer, "form"), sl_put_head(&answer, SL_UINT, SL_FORM_DATA);
  return sl_answer(&answer);
}

static uint64_t good(void) {
  answer.size = 0;
  *sl_grow(&answer, 1) = 0xf6; // null: no error.
  return sl_answer(&answer);
}

SL_EXPORT(sluice_start) uint64_t start(const uint8_t *frame, uint32_t size) {
  (void)frame, (void)size; // There are no settings.
  return good();
}

SL_EXPORT(sluice_put) uint64_t put(const uint8_t *frame, uint32_t size) {
  sl_batch b;
  sl_record rec;
  uint64_t n = sl_batch_open(&b, frame, size), read = 0;
  while (sl_batch_next(&b, &rec)) read++, bytes += rec.key.size + rec.value.size;
  answer.size = 0;
  if (b.r.bad || read != n) { // [1, 1, error, first, results]: nothing is known of any record.
    sl_put_head(&answer, SL_ARRAY, 5);
    sl_put_head(&answer, SL_UINT, 1), sl_put_head(&answer, SL_UINT, 1);
    sl_put_error(&answer, SL_FATAL, "malformed", "the request cannot be read");
    sl_put_head(&answer, SL_UINT, 0), sl_put_head(&answer, SL_ARRAY, 0);
    return sl_answer(&answer);
  }
  // [1, 0, first, results]: a result for each record.
  sl_put_head(&answer, SL_ARRAY, 4);
  sl_put_head(&answer, SL_UINT, 1), sl_put_head(&answer, SL_UINT, 0), sl_put_head(&answer, SL_UINT, 0);
  sl_put_head(&answer, SL_ARRAY, n);
  memset(sl_grow(&answer, (size_t)n), SL_ACCEPT, (size_t)n);
  clock_gettime(CLOCK_REALTIME, &last);
  if (records == 0) first = last;
  records += n;
  return sl_answer(&answer);
}

SL_EXPORT(sluice_check) uint64_t check(void) { return good(); }

static void moment(char *to, size_t size, const struct timespec *t) {
  struct tm utc;
  char seconds[32];
  gmtime_r(&t->tv_sec, &utc);
  strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(to, size, "%s.%09ldZ", seconds, t->tv_nsec);
}

SL_EXPORT(sluice_stop) uint64_t stop(void) {
  char line[256], from[48], to[48];
  moment(from, sizeof from, &first), moment(to, sizeof to, &last);
  snprintf(line, sizeof line, "records dropped records=%" PRIu64 " bytes=%" PRIu64 " first_put=%s last_put=%s", records, bytes, from, to);
  sl_log(SL_INFO, line);
  return good();
}
