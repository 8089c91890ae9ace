// Package rest serves the worker's HTTP API: Kafka Connect's paths with Kafka
// Connect's shapes and codes, so that its clients work, and our own /healthz
// and /metrics. It knows the worker by the small interface [Worker] only.
package rest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
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
	// Pause pauses a connector, or resumes it; false if there is none.
	Pause(name string, on bool) bool
	// Restart starts a connector again with its tasks, or only what has failed
	// of it, and returns its status with what that is RESTARTING.
	Restart(name string, onlyFailed bool) (Status, bool)
	// RestartTask starts one task again, with those that share its membership
	// of the group.
	RestartTask(name string, task int) (connector, found bool)
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

// Restarting returns the status with the connector, and the tasks that restarts
// says, RESTARTING.
func (s Status) Restarting(connector bool, restarts func(task int) bool) Status {
	const restarting = "RESTARTING"
	if connector {
		s.Connector.State = restarting
	}
	s.Tasks = slices.Clone(s.Tasks)
	for i := range s.Tasks {
		if restarts(s.Tasks[i].ID) {
			s.Tasks[i].State = restarting
		}
	}
	return s
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
	root   http.Handler
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
	s.route("PUT", "/connectors/{connector}/pause", s.pause(true))
	s.route("PUT", "/connectors/{connector}/resume", s.pause(false))
	s.route("POST", "/connectors/{connector}/restart", s.restart)
	s.route("POST", "/connectors/{connector}/tasks/{task}/restart", s.restartTask)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, http.StatusNotFound, "HTTP 404 Not Found")
	})
	// A page of somewhere else, open in the browser of someone who can reach the
	// worker, must not change anything.
	s.root = http.NewCrossOriginProtection().Handler(s.mux)
	return s
}

// get routes GET (and HEAD) of path.
func (s *Server) get(path string, h http.HandlerFunc) { s.route("GET", path, h) }

// route routes a method of path, with or without a slash behind it; other
// methods are answered 405.
func (s *Server) route(method, path string, h http.HandlerFunc) {
	paths := []string{path}
	if !strings.HasSuffix(path, "{$}") {
		paths = append(paths, path+"/{$}")
	}
	for _, p := range paths {
		s.mux.HandleFunc(method+" "+p, h)
		s.mux.HandleFunc(p, func(w http.ResponseWriter, _ *http.Request) {
			s.fail(w, http.StatusMethodNotAllowed, "HTTP 405 Method Not Allowed")
		})
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.root.ServeHTTP(w, r) }

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

// pause answers pause (on) and resume.
func (s *Server) pause(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("connector")
		if !s.worker.Pause(name, on) {
			s.fail(w, http.StatusNotFound, "Unknown connector "+name)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// restart always starts the tasks too: a connector of ours is nothing else.
func (s *Server) restart(w http.ResponseWriter, r *http.Request) {
	name, query := r.PathValue("connector"), r.URL.Query()
	tasks, onlyFailed := strings.EqualFold(query.Get("includeTasks"), "true"), strings.EqualFold(query.Get("onlyFailed"), "true")
	status, ok := s.worker.Restart(name, onlyFailed)
	switch {
	case !ok:
		s.fail(w, http.StatusNotFound, "Unknown connector: "+name)
	case tasks || onlyFailed:
		s.json(w, http.StatusAccepted, status)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) restartTask(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("connector")
	n, err := strconv.Atoi(r.PathValue("task"))
	if err != nil {
		s.fail(w, http.StatusNotFound, "HTTP 404 Not Found")
		return
	}
	switch connector, found := s.worker.RestartTask(name, n); {
	case !connector:
		s.fail(w, http.StatusNotFound, "Unknown connector: "+name)
	case !found:
		s.fail(w, http.StatusNotFound, fmt.Sprintf("Unknown task: %s-%d", name, n))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
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
