// Package rest serves the worker's HTTP API: Kafka Connect's paths with Kafka
// Connect's shapes and codes, so that its clients work, and our own /healthz
// and /metrics. It knows the worker by the small interface [Worker] only.
package rest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Worker is what the API shows. Its methods do not block and are safe for
// concurrent use.
type Worker interface {
	// Connectors returns the names of the connectors, sorted.
	Connectors() []string
	// Connector returns one connector's definition and status.
	Connector(name string) (Info, Status, bool)
	// Healthy returns nil while the worker does its work; a failed task is not
	// the worker's failure.
	Healthy() error
}

// Info is a connector's definition in Kafka Connect's shape. Secrets in Config
// are blotted out.
type Info struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Tasks  []TaskID          `json:"tasks"`
	Type   string            `json:"type"`
}

// TaskID names one task.
type TaskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

// Status is a connector's status in Kafka Connect's shape.
type Status struct {
	Name      string          `json:"name"`
	Connector ConnectorStatus `json:"connector"`
	Tasks     []TaskStatus    `json:"tasks"`
	Type      string          `json:"type"`
}

// ConnectorStatus is the state of the connector itself.
type ConnectorStatus struct {
	State    string `json:"state"`
	WorkerID string `json:"worker_id"`
	Version  string `json:"version,omitempty"` // Of the plugin.
	Trace    string `json:"trace,omitempty"`
}

// TaskStatus is the state of one task. Degraded is ours: why a running task
// makes no progress.
type TaskStatus struct {
	ID       int    `json:"id"`
	State    string `json:"state"`
	WorkerID string `json:"worker_id"`
	Version  string `json:"version,omitempty"`
	Trace    string `json:"trace,omitempty"`
	Degraded string `json:"degraded,omitempty"`
}

// About is the answer of GET /.
type About struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	ClusterID string `json:"kafka_cluster_id"`
}

// Server answers the API's requests.
type Server struct {
	worker Worker
	about  About
	log    *slog.Logger
	mux    *http.ServeMux
}

// New returns the API's handler. metrics serves /metrics.
func New(worker Worker, about About, metrics http.Handler, log *slog.Logger) *Server {
	s := &Server{worker: worker, about: about, log: log, mux: http.NewServeMux()}
	s.get("/{$}", func(w http.ResponseWriter, _ *http.Request) { s.json(w, http.StatusOK, s.about) })
	s.get("/healthz", s.health)
	s.get("/connectors", s.connectors)
	s.get("/connectors/{connector}", s.connector)
	s.get("/connectors/{connector}/status", s.status)
	s.get("/metrics", metrics.ServeHTTP)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, http.StatusNotFound, "HTTP 404 Not Found")
	})
	return s
}

// get routes GET (and HEAD) of path, with or without a slash behind it; other
// methods are answered 405.
func (s *Server) get(path string, h http.HandlerFunc) {
	paths := []string{path}
	if !strings.HasSuffix(path, "{$}") {
		paths = append(paths, path+"/{$}")
	}
	for _, p := range paths {
		s.mux.HandleFunc("GET "+p, h)
		s.mux.HandleFunc(p, func(w http.ResponseWriter, _ *http.Request) {
			s.fail(w, http.StatusMethodNotAllowed, "HTTP 405 Method Not Allowed")
		})
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.worker.Healthy(); err != nil {
		s.json(w, http.StatusServiceUnavailable, map[string]string{"status": "unhealthy", "message": err.Error()})
		return
	}
	s.json(w, http.StatusOK, map[string]string{"status": "healthy"})
}

func (s *Server) connectors(w http.ResponseWriter, r *http.Request) {
	names := s.worker.Connectors()
	expand, ok := r.URL.Query()["expand"]
	if !ok {
		if names == nil {
			names = []string{}
		}
		s.json(w, http.StatusOK, names)
		return
	}
	out := make(map[string]map[string]any, len(names))
	for _, name := range names {
		info, status, ok := s.worker.Connector(name)
		if !ok {
			continue
		}
		parts := map[string]any{}
		for _, e := range expand {
			switch e {
			case "info":
				parts["info"] = info
			case "status":
				parts["status"] = status
			}
		}
		out[name] = parts
	}
	s.json(w, http.StatusOK, out)
}

func (s *Server) connector(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("connector")
	info, _, ok := s.worker.Connector(name)
	if !ok {
		s.fail(w, http.StatusNotFound, "Connector "+name+" not found")
		return
	}
	s.json(w, http.StatusOK, info)
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("connector")
	_, status, ok := s.worker.Connector(name)
	if !ok {
		s.fail(w, http.StatusNotFound, "No status found for connector "+name)
		return
	}
	s.json(w, http.StatusOK, status)
}

// fail answers with an error in Kafka Connect's shape.
func (s *Server) fail(w http.ResponseWriter, code int, message string) {
	s.json(w, code, map[string]any{"error_code": code, "message": message})
}

func (s *Server) json(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("answer not written", "err", err)
	}
}

// Listener returns an HTTP server for h with every wait bounded.
func Listener(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}
