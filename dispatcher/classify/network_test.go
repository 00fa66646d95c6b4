package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"tollgate/dispatcher/classify"
)

// B87: by type, and never "unknown outcome" while no byte of the request has left.
func TestNetworkBeforeTheRequestLeft(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		err   error
		class classify.Class
		code  string
	}{
		{x509.CertificateInvalidError{Reason: x509.Expired}, classify.Permanent, classify.CodeCertificate},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, classify.Permanent, classify.CodeCertificate},
		{x509.UnknownAuthorityError{}, classify.Permanent, classify.CodeCertificate},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, classify.Permanent, classify.CodeCertificate},
		{tls.AlertError(40), classify.Transient, classify.CodeTLS},
		{dial(&net.DNSError{IsNotFound: true}), classify.Transient, classify.CodeNoSuchHost},
		{dial(&net.DNSError{IsTimeout: true}), classify.Transient, classify.CodeDNS},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), classify.Transient, classify.CodeRefused},
		{dial(os.ErrDeadlineExceeded), classify.Transient, classify.CodeNotConnected},
		{os.NewSyscallError("read", syscall.ECONNRESET), classify.Transient, classify.CodeNotConnected},
		{errors.New("x509: certificate has expired"), classify.Transient, classify.CodeNotConnected}, // text decides nothing
	}
	for _, tt := range tests {
		v := classify.Network(fmt.Errorf("wrapped: %w", tt.err), false)
		if v.Phase != classify.NotSent || v.Class != tt.class || v.Code != tt.code {
			t.Errorf("%T: %v %v %s, want %v not_sent %s", tt.err, v.Class, v.Phase, v.Code, tt.class, tt.code)
		}
	}
}

// B88: once a byte may have left, nobody knows, whatever the error is.
func TestNetworkAfterTheRequestLeft(t *testing.T) {
	for err, code := range map[error]string{
		os.ErrDeadlineExceeded:       "TIMEOUT",
		syscall.ECONNRESET:           classify.CodeReset,
		syscall.ECONNREFUSED:         classify.CodeConnectionLost,
		io.EOF:                       classify.CodeClosed,
		io.ErrUnexpectedEOF:          classify.CodeClosed,
		errors.New("something else"): classify.CodeConnectionLost,
	} {
		v := classify.Network(fmt.Errorf("wrapped: %w", err), true)
		if v.Phase != classify.NoAnswer || v.Class != classify.Transient || v.Code != code {
			t.Errorf("%v: %v %v %s, want transient no_answer %s", err, v.Class, v.Phase, v.Code, code)
		}
	}
}

// B93: a message is made from the type; the error's text may hold a URL.
func TestNetworkMessagesHoldNoURL(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		err := &url.Error{Op: "Post", URL: "https://h/?token=t-99", Err: io.EOF}
		if v := classify.Network(err, wrote); strings.Contains(v.Message, "t-99") {
			t.Errorf("message %q", v.Message)
		}
	}
}

func TestEnded(t *testing.T) {
	v := classify.Ended(context.DeadlineExceeded, errors.New("own cause"), classify.NoAnswer)
	if v.Code != "TIMEOUT" || v.Phase != classify.NoAnswer || v.Class != classify.Transient {
		t.Errorf("deadline: %+v", v)
	}
	v = classify.Ended(context.Canceled, errors.New("shutting down"), classify.NotSent)
	if v.Code != "INTERRUPTED" || v.Phase != classify.NotSent || !strings.Contains(v.Message, "shutting down") {
		t.Errorf("stopped: %+v", v)
	}
}
