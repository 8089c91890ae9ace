package jdbc

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// sqlMode makes the server refuse what it would otherwise change in silence: values cut to fit, dates of zeros, an engine
// without transactions, a 0 that becomes the next number. It replaces the server's own mode, so that a worker writes the
// same on every server.
const sqlMode = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'"

// mysqlConfig reads mysql://user:password@host:port/database?tls=…. No error repeats a part of the address.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	const want = "want mysql://user:password@host:3306/database, with what is special in URLs percent-encoded"
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, invalid("dsn: not a MySQL address; " + want)
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, invalid("dsn: no database is named; " + want)
	}
	config := mysql.NewConfig()
	config.Net, config.DBName, config.Logger = "tcp", database, &mysql.NopLogger{}
	if u.User != nil {
		config.User = u.User.Username()
		config.Passwd, _ = u.User.Password()
	}
	config.Addr = u.Host
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	// Parameters are put into the text of the statement, which saves a round trip and has no limit on their number.
	config.InterpolateParams = true
	config.MaxAllowedPacket = 0 // The server's own.
	config.Params = map[string]string{"time_zone": "'+00:00'", "sql_mode": sqlMode}
	if err := mysqlOptions(config, u); err != nil {
		return nil, err
	}
	return config, nil
}

// mysqlOptions reads what stands behind the question mark.
func mysqlOptions(config *mysql.Config, u *url.URL) error {
	var pool *x509.CertPool
	mode := "false"
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "tls":
			mode = value
		case "tls_ca":
			pem, err := os.ReadFile(value)
			if err != nil {
				return invalid("dsn: tls_ca: %v", err)
			}
			pool = x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return invalid("dsn: tls_ca: %s holds no certificate", value)
			}
		case "collation":
			config.Collation = value
		default:
			return invalid("dsn: the option %q is not known; there are tls, tls_ca and collation", name)
		}
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname(), RootCAs: pool}
	switch mode {
	case "false":
		if pool != nil {
			config.TLS = secured
		}
	case "true":
		config.TLS = secured
	case "preferred", "skip-verify":
		config.TLSConfig = mode
	default:
		return invalid("dsn: tls: want true, false, preferred or skip-verify")
	}
	return nil
}
