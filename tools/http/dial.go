package http

import (
	"context"
	"crypto/tls"
	"net"
	nethttp "net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// CodeAddressDenied says that the tool's host led to an address that is not allowed.
const CodeAddressDenied = "ADDRESS_DENIED"

// newTransport dials and shakes hands itself, so that whatever is written to the
// connection it hands out belongs to a request: that is the proof of not_sent.
// There is no proxy, so the address checked is the address of the tool.
func newTransport(s Spec) *nethttp.Transport {
	dialer := &net.Dialer{Timeout: s.ConnectTimeout}
	if s.DenyPrivate {
		dialer.Control = denyPrivate
	}
	plain := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
	secure := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
		defer cancel()
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := tls.Client(raw, tlsConfig(s.TLS, address))
		if err := c.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
	return &nethttp.Transport{
		DialContext: plain, DialTLSContext: secure,
		DisableKeepAlives:      s.FreshConnection,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		TLSNextProto:           map[string]func(string, *tls.Conn) nethttp.RoundTripper{}, // no HTTP/2
	}
}

func tlsConfig(base *tls.Config, address string) *tls.Config {
	c := &tls.Config{}
	if base != nil {
		c = base.Clone()
	}
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(address)
	}
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	c.NextProtos = []string{"http/1.1"}
	return c
}

// conn counts the writes of requests.
type conn struct {
	net.Conn
	writes atomic.Int64
}

// Write counts before it writes: a write that fails may still have reached the wire.
func (c *conn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// meter knows whether any byte of a request may have left, over all its hops.
type meter struct{ uses []use }

type use struct {
	conn *conn
	from int64
}

func (m *meter) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// Called by RoundTrip itself, before it writes; never beside it.
		GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*conn); ok {
				m.uses = append(m.uses, use{c, c.writes.Load()})
			}
		},
	})
}

func (m *meter) wrote() bool {
	for _, u := range m.uses {
		if u.conn.writes.Load() > u.from {
			return true
		}
	}
	return false
}

type deniedError struct{ address netip.Addr }

func (e *deniedError) Error() string {
	return "the tool's host leads to the address " + e.address.String() + ", which is loopback, private or link-local; allow private addresses for this tool if that is meant"
}

// notPublic are ranges that netip has no name for: shared address space, this
// network, benchmarking, and the translations of IPv4 that could hide any of them.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

// denyPrivate checks the address after the name was resolved, so that no name can
// lead somewhere else between a check and the connection.
func denyPrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &deniedError{}
	}
	a := ap.Addr().Unmap().WithZone("")
	denied := a.IsLoopback() || a.IsPrivate() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast()
	for _, p := range notPublic {
		denied = denied || p.Contains(a)
	}
	if denied {
		return &deniedError{a}
	}
	return nil
}
