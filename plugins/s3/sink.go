package s3

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluicehq/sluice/pluginapi"
)

// sink writes batches as objects. It keeps nothing between puts but connections.
type sink struct {
	settings  settings
	client    *s3.Client
	transport *http.Transport
	log       *slog.Logger
}

var (
	_ pluginapi.Sink    = (*sink)(nil)
	_ pluginapi.Checker = (*sink)(nil)
)

// Start reads the settings and the SDK's configuration. It connects to nothing.
func (s *sink) Start(ctx context.Context, cfg pluginapi.Config) error {
	settings, err := readSettings(cfg)
	if err != nil {
		return err
	}
	s.settings = settings
	s.log = cfg.Logger
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.client, s.transport, err = newClient(ctx, &s.settings); err != nil {
		return invalid("the SDK's configuration: %v", err)
	}
	return nil
}

// Check asks for the bucket.
func (s *sink) Check(ctx context.Context) error {
	if s.client == nil {
		return errNotStarted()
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.timeout)
	defer cancel()
	if _, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.settings.bucket}); err != nil {
		return classify(ctx, fmt.Sprintf("bucket %q", s.settings.bucket), err)
	}
	return nil
}

// Stop closes the connections.
func (s *sink) Stop(context.Context) error {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

func errNotStarted() error {
	return pluginapi.NewError(pluginapi.Fatal, "not_started", "the sink is not started")
}

// object is a folder's share of a batch.
type object struct {
	folder  string
	indexes []int
}

// Put writes one object for each folder that the records of batch belong to.
func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	if len(batch) == 0 {
		return results, nil
	}
	if s.client == nil {
		return results, errNotStarted()
	}
	p := put{sink: s, batch: batch, results: results}
	p.run(ctx, s.group(batch, results))
	if p.stop != nil && p.stop.Class == pluginapi.Fatal {
		return results, p.stop
	}
	return results, nil
}

// group sorts records into objects and rejects those that belong to none.
func (s *sink) group(batch []pluginapi.Record, results []pluginapi.Result) []*object {
	var objects []*object
	byFolder := make(map[string]*object)
	var buf []byte
	var err error
	for i := range batch {
		if buf, err = s.settings.key.appendTo(buf[:0], &batch[i]); err != nil {
			results[i] = pluginapi.Rejected("key", "key: "+err.Error())
			continue
		}
		o := byFolder[string(buf)]
		if o == nil {
			if n := len(buf) + len(objectName(batch, []int{i}, s.settings.extension)) + maxCountDigits; n > maxKey {
				results[i] = pluginapi.Rejected("key_too_long", fmt.Sprintf("the object's key would have %d bytes, at most %d are possible", n, maxKey))
				continue
			}
			o = &object{folder: string(buf)}
			byFolder[o.folder] = o
			objects = append(objects, o)
		}
		o.indexes = append(o.indexes, i)
	}
	return objects
}

// maxCountDigits is how much longer a name gets with the number of its records.
const maxCountDigits = 10

// put is one call of Put.
type put struct {
	sink    *sink
	batch   []pluginapi.Record
	results []pluginapi.Result // Each object's goroutine sets those of its own records.

	mu   sync.Mutex
	stop *pluginapi.Error // Why no further object is tried; a fatal error replaces any other. Guarded by mu.
}

// run uploads objects, some at a time, and waits for all of them.
func (p *put) run(ctx context.Context, objects []*object) {
	queue := make(chan *object)
	var wg sync.WaitGroup
	for range min(p.sink.settings.uploads, len(objects)) {
		wg.Go(func() {
			for o := range queue {
				p.object(ctx, o)
			}
		})
	}
	for _, o := range objects {
		queue <- o
	}
	close(queue)
	wg.Wait()
}

// object uploads one object and sets the results of its records.
func (p *put) object(ctx context.Context, o *object) {
	p.mu.Lock()
	err := p.stop
	p.mu.Unlock()
	if err == nil {
		err = p.upload(ctx, o)
	}
	if err != nil {
		p.failed(o, err)
		return
	}
	for _, i := range o.indexes {
		if p.results[i].Outcome == 0 {
			p.results[i].Outcome = pluginapi.Accept
		}
	}
}

// failed answers for an object that is not stored. What concerns the whole bucket spares the other objects the try.
func (p *put) failed(o *object, err *pluginapi.Error) {
	if err.Class != pluginapi.Transient {
		p.mu.Lock()
		if p.stop == nil || err.Class == pluginapi.Fatal {
			p.stop = err
		}
		p.mu.Unlock()
	}
	if err.Class == pluginapi.Fatal {
		return // The records have no result; the error is returned.
	}
	for _, i := range o.indexes {
		if p.results[i].Outcome == 0 {
			p.results[i] = pluginapi.Retried(err)
		}
	}
}

// upload stores the records of o that can be written, and rejects the others.
func (p *put) upload(ctx context.Context, o *object) (failure *pluginapi.Error) {
	s := &p.sink.settings
	u := newUpload(p.sink.client, s, o.folder+objectName(p.batch, o.indexes, s.extension))
	defer func() {
		if failure == nil {
			return
		}
		if err := u.abort(ctx); err != nil {
			p.sink.log.Warn("upload is not aborted, its parts stay", "bucket", s.bucket, "upload_id", *u.id, "err", err)
		}
	}()
	var line []byte
	written := 0
	for _, i := range o.indexes {
		var err error
		if line, err = s.format.Append(line[:0], &p.batch[i]); err != nil {
			p.results[i] = pluginapi.Rejected("format", err.Error())
			continue
		}
		line = append(line, '\n')
		if err := u.write(ctx, line); err != nil {
			return err
		}
		written++
	}
	if written == 0 {
		return nil
	}
	return u.finish(ctx)
}
