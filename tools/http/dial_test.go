package http_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/dispatcher/classify"
	httptool "tollgate/tools/http"
)

// certificate makes a self-signed one and the pool that trusts it.
func certificate(t *testing.T, name string, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// B87: real handshakes. A bad certificate is permanent, and no request was sent.
func TestB87Certificates(t *testing.T) {
	tests := map[string]struct {
		name    string
		until   time.Duration
		trusted bool
		want    string
		says    string
	}{
		"good":       {"127.0.0.1", time.Hour, true, "ok answered", ""},
		"expired":    {"127.0.0.1", -time.Hour, true, "permanent not_sent TLS_CERTIFICATE", "expired"},
		"other name": {"elsewhere.test", time.Hour, true, "permanent not_sent TLS_CERTIFICATE", "another host name"},
		"unknown":    {"127.0.0.1", time.Hour, false, "permanent not_sent TLS_CERTIFICATE", "unknown authority"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			cert, pool := certificate(t, tt.name, time.Now().Add(tt.until))
			s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter, *nethttp.Request) { requests.Add(1) }))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			s.Config.ErrorLog = quiet()
			s.StartTLS()
			defer s.Close()
			if !tt.trusted {
				pool = x509.NewCertPool()
			}
			v := executor(t, httptool.Spec{URL: s.URL, TLS: &tls.Config{RootCAs: pool}}).Execute(t.Context(), attempt)
			if short(v) != tt.want || !strings.Contains(v.Message, tt.says) {
				t.Errorf("%s %q, want %s saying %q", short(v), v.Message, tt.want, tt.says)
			}
			if v.OK() != (requests.Load() == 1) {
				t.Errorf("the tool saw %d requests", requests.Load())
			}
		})
	}
	if _, err := httptool.New(httptool.Spec{URL: "https://h", TLS: &tls.Config{InsecureSkipVerify: true}}); err == nil {
		t.Error("verification could be switched off")
	}
}

// B87: before any request byte everything else is transient and not_sent.
func TestNotSent(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	rude, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetLinger(0) // a reset, in the middle of the handshake
			c.Close()
		}
	}()
	plain := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) {})
	for url, want := range map[string]string{
		"http://" + closed.Addr().String():               "transient not_sent CONNECTION_REFUSED",
		"https://" + rude.Addr().String():                "transient not_sent NOT_CONNECTED",
		strings.Replace(plain.URL, "http:", "https:", 1): "transient not_sent TLS_HANDSHAKE",
	} {
		if v := executor(t, httptool.Spec{URL: url}).Execute(t.Context(), attempt); short(v) != want {
			t.Errorf("%s: %s, want %s", url, short(v), want)
		}
	}
	v := executor(t, httptool.Spec{URL: "http://no-such-host.invalid/"}).Execute(t.Context(), attempt)
	if v.Phase != classify.NotSent || v.Class != classify.Transient || !strings.HasPrefix(v.Code, "DNS_") {
		t.Errorf("no such host: %s", short(v))
	}
}

// The address is checked as dialled, so a public name cannot lead inside.
func TestPrivateAddressesDenied(t *testing.T) {
	var requests atomic.Int32
	s := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { requests.Add(1) })
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"} {
		v := executor(t, httptool.Spec{URL: "http://" + host + port, DenyPrivate: true}).Execute(t.Context(), attempt)
		if short(v) != "permanent not_sent ADDRESS_DENIED" {
			t.Errorf("%s: %s", host, short(v))
		}
	}
	if requests.Load() != 0 {
		t.Errorf("the tool saw %d requests", requests.Load())
	}
}
