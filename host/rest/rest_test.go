package rest

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type fakeWorker struct{ unhealthy error }

func (fakeWorker) Connectors() []string { return []string{"a", "b"} }
func (w fakeWorker) Healthy() error     { return w.unhealthy }
func (fakeWorker) Connector(name string) (Info, Status, bool) {
	if name != "a" && name != "b" {
		return Info{}, Status{}, false
	}
	return Info{Name: name, Config: map[string]string{"sink": "drop"}, Tasks: []TaskID{{Connector: name}}, Type: "sink"},
		Status{
			Name: name, Connector: ConnectorStatus{State: "RUNNING", WorkerID: "w1", Version: "1.0.0"},
			Tasks: []TaskStatus{{ID: 0, State: "FAILED", WorkerID: "w1", Trace: "no such table"}}, Type: "sink",
		}, true
}

func (w fakeWorker) Pause(name string, on bool) bool {
	_, _, ok := w.Connector(name)
	return ok
}

func (w fakeWorker) Restart(name string, onlyFailed bool) (Status, bool) {
	_, st, ok := w.Connector(name)
	return st.Restarting(!onlyFailed, func(task int) bool { return task == 0 }), ok
}

func (w fakeWorker) RestartTask(name string, task int) (connector, found bool) {
	_, _, ok := w.Connector(name)
	return ok, task == 0
}

func TestAnswersInKafkaConnectsShape(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "m") })
	s := New(fakeWorker{}, About{Version: "0.1.0", Commit: "abc"}, metrics, slog.New(slog.DiscardHandler))
	down := New(fakeWorker{unhealthy: errors.New("stopping")}, About{}, metrics, slog.New(slog.DiscardHandler))
	status := `{"name":"a","connector":{"state":"RUNNING","worker_id":"w1","version":"1.0.0"},` +
		`"tasks":[{"id":0,"state":"FAILED","worker_id":"w1","trace":"no such table"}],"type":"sink"}`
	restarting := strings.NewReplacer("RUNNING", "RESTARTING", "FAILED", "RESTARTING").Replace(status)
	info := `{"name":"a","config":{"sink":"drop"},"tasks":[{"connector":"a","task":0}],"type":"sink"}`
	for _, tc := range []struct {
		name, method, path string
		server             *Server
		code               int
		body               string
	}{
		{"root", "GET", "/", s, 200, `{"version":"0.1.0","commit":"abc","kafka_cluster_id":""}`},
		{"names", "GET", "/connectors", s, 200, `["a","b"]`},
		{"slash behind", "GET", "/connectors/", s, 200, `["a","b"]`},
		{"expand", "GET", "/connectors?expand=status&expand=nope", s, 200, `{"a":{"status":` + status + `},"b":{"status":` + strings.Replace(status, `"name":"a"`, `"name":"b"`, 1) + `}}`},
		{"connector", "GET", "/connectors/a", s, 200, info},
		{"status", "GET", "/connectors/a/status", s, 200, status},
		{"no connector", "GET", "/connectors/x", s, 404, `{"error_code":404,"message":"Connector x not found"}`},
		{"no status", "GET", "/connectors/x/status", s, 404, `{"error_code":404,"message":"No status found for connector x"}`},
		{"no path", "GET", "/nope", s, 404, `{"error_code":404,"message":"HTTP 404 Not Found"}`},
		{"wrong method", "POST", "/connectors/a/status", s, 405, `{"error_code":405,"message":"HTTP 405 Method Not Allowed"}`},
		{"pause", "PUT", "/connectors/a/pause", s, 202, ""},
		{"pause, slash behind", "PUT", "/connectors/a/pause/", s, 202, ""},
		{"resume", "PUT", "/connectors/a/resume", s, 202, ""},
		{"pause, no connector", "PUT", "/connectors/x/pause", s, 404, `{"error_code":404,"message":"Unknown connector x"}`},
		{"pause, wrong method", "POST", "/connectors/a/pause", s, 405, `{"error_code":405,"message":"HTTP 405 Method Not Allowed"}`},
		{"restart", "POST", "/connectors/a/restart", s, 204, ""},
		{"restart with tasks", "POST", "/connectors/a/restart?includeTasks=TRUE", s, 202, restarting},
		{"restart what failed", "POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true", s, 202, strings.Replace(restarting, "RESTARTING", "RUNNING", 1)},
		{"restart, no connector", "POST", "/connectors/x/restart", s, 404, `{"error_code":404,"message":"Unknown connector: x"}`},
		{"restart a task", "POST", "/connectors/a/tasks/0/restart", s, 204, ""},
		{"restart no task", "POST", "/connectors/a/tasks/7/restart", s, 404, `{"error_code":404,"message":"Unknown task: a-7"}`},
		{"restart a task that is no number", "POST", "/connectors/a/tasks/x/restart", s, 404, `{"error_code":404,"message":"HTTP 404 Not Found"}`},
		{"healthy", "GET", "/healthz", s, 200, `{"status":"healthy"}`},
		{"unhealthy", "GET", "/healthz", down, 503, `{"message":"stopping","status":"unhealthy"}`},
		{"metrics", "GET", "/metrics", s, 200, `m`},
		{"metrics, wrong method", "POST", "/metrics", s, 405, `{"error_code":405,"message":"HTTP 405 Method Not Allowed"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			tc.server.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil))
			if got := strings.TrimSpace(rec.Body.String()); rec.Code != tc.code || got != tc.body {
				t.Errorf("got %d %s\nwant %d %s", rec.Code, got, tc.code, tc.body)
			}
		})
	}
}
