package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
	"github.com/sluicehq/sluice/plugins/internal/jsonlines"
)

// maxOpen bounds the files a sink keeps open.
const maxOpen = 64

var (
	_ pluginapi.Sink    = (*sink)(nil)
	_ pluginapi.Checker = (*sink)(nil)
)

type sink struct {
	path   *template.Template
	format *jsonlines.Format
	fixed  string // The path, where it has no placeholder.
	files  map[string]*target
	clock  int64  // Counts puts, to find the file not used for the longest.
	lines  []byte // Reused from put to put.

	// writeAt stands in for the file's method in tests; nil is the method.
	writeAt func(f *os.File, b []byte, at int64) (int, error)
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	path, err := template.Parse(cfg.String("path"))
	if err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "path", fmt.Sprintf("path: %v", err))
	}
	format, err := jsonlines.New(cfg.Strings("include"))
	if err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "include", err.Error())
	}
	s.path, s.format, s.files = path, format, map[string]*target{}
	fixed, constant := path.Constant()
	if constant && fixed == "" {
		return pluginapi.NewError(pluginapi.Invalid, "path", "path is empty; name a file")
	}
	s.fixed = fixed
	return nil
}

// Check asks whether the file, or its directory where there is none yet, can be
// written to, if its name is known before a record is there. It writes nothing.
func (s *sink) Check(context.Context) error {
	if s.fixed == "" {
		return nil
	}
	if err := checkWritable(s.fixed); err != nil {
		return classify(err)
	}
	return nil
}

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	if s.fixed != "" {
		lines := s.lines[:0]
		kept := make([]int, 0, len(batch))
		for i := range batch {
			lines, kept = s.line(lines, kept, &batch[i], i, results)
		}
		s.lines = lines
		return results, s.append(ctx, s.fixed, lines, kept, results)
	}
	for _, g := range s.group(batch, results) {
		if ctx.Err() != nil {
			break // What has no result is unknown; it was not touched.
		}
		lines := s.lines[:0]
		kept := make([]int, 0, len(g.records))
		for _, i := range g.records {
			lines, kept = s.line(lines, kept, &batch[i], i, results)
		}
		s.lines = lines
		if err := s.append(ctx, g.path, lines, kept, results); err != nil {
			return results, err
		}
	}
	return results, ctx.Err()
}

// group sorts the records by the file they go to, files in order of their
// first record.
type group struct {
	path    string
	records []int
}

func (s *sink) group(batch []pluginapi.Record, results []pluginapi.Result) []*group {
	byPath := map[string]*group{}
	var out []*group
	var buf []byte
	for i := range batch {
		var err error
		if buf, err = s.render(buf[:0], &batch[i]); err != nil {
			results[i] = pluginapi.Rejected("path", err.Error())
			continue
		}
		g := byPath[string(buf)]
		if g == nil {
			g = &group{path: string(buf)}
			byPath[g.path] = g
			out = append(out, g)
		}
		g.records = append(g.records, i)
	}
	return out
}

var errPathField = errors.New(`a field of the path holds a slash or a NUL byte, is empty, or is "." or ".."`)

// render makes the path of a record. A field may name one entry of a folder,
// nothing above or below.
func (s *sink) render(dst []byte, r *pluginapi.Record) ([]byte, error) {
	bad := false
	dst, err := s.path.AppendEscaped(dst, r, func(dst, field []byte) []byte {
		if len(field) == 0 || string(field) == "." || string(field) == ".." {
			bad = true
		}
		for _, c := range field {
			if c == '/' || c == '\\' || c == 0 {
				bad = true
			}
		}
		return append(dst, field...)
	})
	if err == nil && bad {
		err = errPathField
	}
	return dst, err
}

// line appends record i's line and notes i, or rejects it.
func (s *sink) line(lines []byte, kept []int, r *pluginapi.Record, i int, results []pluginapi.Result) ([]byte, []int) {
	before := len(lines)
	lines, err := s.format.Append(lines, r)
	if err != nil {
		results[i] = pluginapi.Rejected("format", err.Error())
		return lines[:before], kept
	}
	return append(lines, '\n'), append(kept, i)
}

// append writes lines to the file and answers the records they stand for. A
// name that can never be a file is the record's fault if it comes from the
// record, else the setting's: that is the error, of class Fatal.
func (s *sink) append(ctx context.Context, path string, lines []byte, records []int, results []pluginapi.Result) error {
	if len(records) == 0 {
		return nil
	}
	answer := pluginapi.Result{Outcome: pluginapi.Accept}
	if err := s.open(path).append(ctx, lines); err != nil {
		e := classify(err)
		switch {
		case e.Class != pluginapi.Invalid:
			answer = pluginapi.Retried(e)
		case s.fixed == "":
			answer = pluginapi.Result{Outcome: pluginapi.Reject, Err: e}
		default:
			e.Class = pluginapi.Fatal
			return e
		}
	}
	for _, i := range records {
		results[i] = answer
	}
	return nil
}

// open returns the file at path, closing another where too many are open.
func (s *sink) open(path string) *target {
	s.clock++
	t := s.files[path]
	if t == nil {
		if len(s.files) >= maxOpen {
			oldest := ""
			for p, f := range s.files {
				if oldest == "" || f.used < s.files[oldest].used {
					oldest = p
				}
			}
			s.files[oldest].close()
			delete(s.files, oldest)
		}
		t = &target{path: path, writeAt: s.writeAt}
		s.files[path] = t
	}
	t.used = s.clock
	return t
}

func (s *sink) Stop(context.Context) error {
	for _, t := range s.files {
		t.close()
	}
	s.files = nil
	return nil
}

// classify makes an error of the file system one the host can act on. A name
// that can never be a file is Invalid; everything else may be put right while
// the records wait.
func classify(err error) *pluginapi.Error {
	code, class := "io", pluginapi.Unavailable
	var errno syscall.Errno
	if errors.As(err, &errno) {
		code = errnoName(errno)
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG),
		errors.Is(err, syscall.EINVAL), errors.Is(err, errNotRegular):
		class = pluginapi.Invalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code, class = "locked", pluginapi.Transient
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pluginapi.NewError(class, code, fmt.Sprintf("%s %s: %v", pe.Op, pe.Path, pe.Err))
	}
	return pluginapi.NewError(class, code, err.Error())
}

// errnoName returns the name of the errors an operator meets most.
func errnoName(e syscall.Errno) string {
	switch e {
	case syscall.ENOSPC:
		return "ENOSPC"
	case syscall.EDQUOT:
		return "EDQUOT"
	case syscall.EACCES:
		return "EACCES"
	case syscall.EROFS:
		return "EROFS"
	case syscall.EIO:
		return "EIO"
	case syscall.ENOENT:
		return "ENOENT"
	default:
		return "io"
	}
}
