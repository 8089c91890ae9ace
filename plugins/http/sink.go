package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
	"github.com/sluicehq/sluice/plugins/internal/jsonlines"
)

var (
	_ pluginapi.Sink     = (*sink)(nil)
	_ pluginapi.Reporter = (*sink)(nil)
	_ pluginapi.Checker  = (*sink)(nil)
)

type sink struct {
	url      *template.Template
	method   string
	headers  []header
	batch    bool // One request carries several records.
	array    bool // As a JSON array, not as lines.
	format   *jsonlines.Format
	include  bool
	inFlight int
	statuses *statuses
	client   *http.Client
	timeout  time.Duration
	secrets  *strings.Replacer // Takes the settings' secrets out of a message.
}

// header is one configured header.
type header struct {
	name  string
	value *template.Template
}

func invalid(setting string, err error) *pluginapi.Error {
	return pluginapi.NewError(pluginapi.Invalid, setting, fmt.Sprintf("%s: %v", setting, err))
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	var err error
	if s.url, err = template.Parse(cfg.String("url")); err != nil {
		return invalid("url", err)
	}
	if fixed, ok := s.url.Constant(); ok {
		if err := checkURL(fixed); err != nil {
			return invalid("url", err)
		}
	}
	if err := s.readHeaders(cfg); err != nil {
		return err
	}
	if s.format, err = jsonlines.New(cfg.Strings("include")); err != nil {
		return invalid("include", err)
	}
	if s.statuses, err = newStatuses(cfg); err != nil {
		return invalid("status", err)
	}
	s.secrets = newSecrets(cfg, s.headers)
	s.include = len(cfg.Strings("include")) > 0
	s.method = cfg.String("method")
	s.batch = cfg.String("body") != "single"
	s.array = cfg.String("body") == "json_array"
	s.inFlight = max(1, int(cfg.Int("max_in_flight")))
	s.timeout = cfg.Duration("timeout")
	return s.newClient(cfg.String("ca_file"))
}

// readHeaders reads the configured headers and the login.
func (s *sink) readHeaders(cfg pluginapi.Config) error {
	seen := map[string]bool{}
	for name, text := range cfg.StringMap("headers") {
		if !httpguts.ValidHeaderFieldName(name) {
			return invalid("headers", fmt.Errorf("%q is not the name of a header", name))
		}
		key := http.CanonicalHeaderKey(name)
		if seen[key] {
			return invalid("headers", fmt.Errorf("%s is there twice, spelt differently", key))
		}
		seen[key] = true
		value, err := template.Parse(text)
		if err != nil {
			// The text may be a secret: only the header is named.
			return invalid("headers", fmt.Errorf("%s: not a template", key))
		}
		s.headers = append(s.headers, header{name: key, value: value})
	}
	login := ""
	if token := cfg.String("bearer_token"); token != "" {
		login = "Bearer " + token
	}
	if user := cfg.String("username"); user != "" {
		if login != "" {
			return invalid("bearer_token", errors.New("give either a bearer token or a username"))
		}
		login = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+cfg.String("password")))
	}
	if login == "" {
		return nil
	}
	if seen["Authorization"] {
		return invalid("headers", errors.New("authorization is set by the login settings too"))
	}
	if !httpguts.ValidHeaderFieldValue(login) {
		return invalid("bearer_token", errors.New("holds a character that a header cannot"))
	}
	value, err := template.Parse(strings.NewReplacer("{", "{{").Replace(login))
	if err != nil {
		return invalid("bearer_token", errors.New("cannot be sent"))
	}
	s.headers = append(s.headers, header{name: "Authorization", value: value})
	return nil
}

// minSecret is the length of the shortest secret that is looked for: hiding
// shorter ones would hide anything.
const minSecret = 4

// newSecrets returns what takes the secrets of the settings out of a text: the
// login, and headers without a placeholder.
func newSecrets(cfg pluginapi.Config, headers []header) *strings.Replacer {
	secrets := []string{cfg.String("password"), cfg.String("bearer_token")}
	for _, h := range headers {
		text, _ := h.value.Constant()
		_, token, _ := strings.Cut(text, " ") // "Bearer …".
		secrets = append(secrets, text, token)
	}
	if u, err := url.Parse(cfg.String("url")); err == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	// The longest first: of two that overlap it hides more.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			pairs = append(pairs, secret, "(secret)")
		}
	}
	return strings.NewReplacer(pairs...)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("cannot be read as a URL") // Its text may hold a password.
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("want http://HOST… or https://HOST…")
	}
	return nil
}

// idleConns is how many connections are kept for reuse.
const idleConns = 64

func (s *sink) newClient(caFile string) error {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns,
		MaxConnsPerHost: max(idleConns, s.inFlight), IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return invalid("ca_file", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return invalid("ca_file", fmt.Errorf("%s holds no certificate", caFile))
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	s.client = &http.Client{Transport: t, CheckRedirect: s.redirect}
	return nil
}

// redirect follows redirects of GET requests on the same host only: another
// host would get the configured headers, and a POST would become a GET without
// a body that the target takes for something else.
func (s *sink) redirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if s.method != http.MethodGet || len(via) > 5 || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Check connects to the target, and sends nothing. It cannot tell where the
// host comes from the record.
func (s *sink) Check(ctx context.Context) error {
	u, ok := s.host()
	if !ok {
		return nil
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		return nil // The proxy dials; whether it can, only a request shows.
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return pluginapi.NewError(pluginapi.Unavailable, "connect", err.Error())
	}
	return conn.Close()
}

// host returns the URL's scheme and host where they are the same for all
// records.
func (s *sink) host() (*url.URL, bool) {
	text := s.url.String()
	i := strings.Index(text, "://")
	if i < 0 {
		return nil, false
	}
	end := len(text)
	if j := strings.IndexAny(text[i+3:], "/?#"); j >= 0 {
		end = i + 3 + j
	}
	if strings.ContainsAny(text[:end], "{}") {
		return nil, false
	}
	u, err := url.Parse(text[:end])
	return u, err == nil && u.Host != ""
}

func (s *sink) Stop(context.Context) error {
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	return nil
}

// withoutSecrets drops what a URL may hide: user info and query.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
