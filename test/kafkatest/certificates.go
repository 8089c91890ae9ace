package kafkatest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are PEM files of a certificate authority, a server and a client, valid for a day.
type Certificates struct {
	// CAFile holds the certificate of the authority that signed the others.
	CAFile string

	// OtherCAFile holds the certificate of an authority that signed none of them, for tests of a refused connection.
	OtherCAFile string

	// ServerCertFile and ServerKeyFile are for 127.0.0.1 and localhost.
	ServerCertFile, ServerKeyFile string

	// ClientCertFile and ClientKeyFile have the common name "sluice-client".
	ClientCertFile, ClientKeyFile string

	// serverStore holds the server's key and certificate in one file, as Kafka wants a PEM key store.
	serverStore string
}

// WriteCertificates makes new keys and certificates in the folder dir, which must exist.
func WriteCertificates(dir string) (*Certificates, error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CAFile: file("ca.pem"), OtherCAFile: file("other-ca.pem"), serverStore: file("server-store.pem"),
		ServerCertFile: file("server.pem"), ServerKeyFile: file("server.key"),
		ClientCertFile: file("client.pem"), ClientKeyFile: file("client.key"),
	}
	ca, err := newIdentity("sluice test CA", nil)
	if err != nil {
		return nil, err
	}
	other, err := newIdentity("another CA", nil)
	if err != nil {
		return nil, err
	}
	server, err := newIdentity("localhost", ca)
	if err != nil {
		return nil, err
	}
	client, err := newIdentity("sluice-client", ca)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{c.CAFile, ca.certPEM},
		{c.OtherCAFile, other.certPEM},
		{c.ServerCertFile, server.certPEM},
		{c.ServerKeyFile, server.keyPEM},
		{c.ClientCertFile, client.certPEM},
		{c.ClientKeyFile, client.keyPEM},
		{c.serverStore, append(append([]byte{}, server.keyPEM...), server.certPEM...)},
	} {
		if err := os.WriteFile(f.name, f.content, 0o600); err != nil {
			return nil, fmt.Errorf("write certificates: %w", err)
		}
	}
	return c, nil
}

// identity is a key with its certificate.
type identity struct {
	cert            *x509.Certificate
	key             crypto.Signer
	certPEM, keyPEM []byte
}

// newIdentity makes a key and a certificate signed by issuer, or a certificate authority of its own if issuer is nil.
func newIdentity(name string, issuer *identity) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial number of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	} else {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
		template.ExtKeyUsage, template.DNSNames, template.IPAddresses = nil, nil, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key of %s: %w", name, err)
	}
	return &identity{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}
