package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// maxPEMBytes bounds what is read of a certificate or key file.
const maxPEMBytes = 1 << 20

// config reads the files and returns a TLS configuration.
func (t *TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := readPEM(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls: read ca_file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: read ca_file: %s holds no PEM certificate", t.CAFile)
		}
		conf.RootCAs = pool
	}
	if t.CertFile != "" || t.KeyFile != "" {
		cert, err := readPEM(t.CertFile)
		if err != nil {
			return nil, fmt.Errorf("tls: read cert_file: %w", err)
		}
		key, err := readPEM(t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls: read key_file: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls: read cert_file and key_file: %w", err)
		}
		// Not Certificates: a client leaves its certificate out when the
		// broker's list of authorities does not name the issuer, and the
		// failure then looks like a missing setting.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, nil
		}
	}
	return conf, nil
}

func readPEM(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPEMBytes {
		return nil, errors.New(path + " is larger than 1 MiB")
	}
	return os.ReadFile(path)
}
