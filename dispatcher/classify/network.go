package classify

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"tollgate/schemas"
)

// Codes of failures below the tool's own protocol.
const (
	CodeCertificate    = "TLS_CERTIFICATE"    // permanent: no wait mends it
	CodeTLS            = "TLS_HANDSHAKE"      // the handshake broke off
	CodeNoSuchHost     = "DNS_NOT_FOUND"      // the name does not exist, now
	CodeDNS            = "DNS_FAILED"         // the name server did not say
	CodeRefused        = "CONNECTION_REFUSED" // nobody listens
	CodeNotConnected   = "NOT_CONNECTED"      // any other failure before the request left
	CodeReset          = "CONNECTION_RESET"   // after the request left
	CodeClosed         = "CONNECTION_CLOSED"  // after the request left, before the answer was complete
	CodeConnectionLost = "CONNECTION_LOST"    // any other failure after the request left
)

// Network judges a failed connection by the error's type. wrote says whether any
// byte of the request may have left: then nobody knows what happened, whatever the
// error. Before that the failure is provably not_sent, and transient, but for a
// certificate that does not verify.
//
// A host name that does not exist is transient too: a service that is being
// deployed has no name for a while, and a mistyped one costs the call's attempts only.
//
// Messages are made from types, never from the error's text: that may carry a URL.
func Network(err error, wrote bool) Verdict {
	if wrote {
		return lostAfterWrite(err)
	}
	if problem := certificateProblem(err); problem != "" {
		return Refused(NotSent, CodeCertificate, "the server's certificate was refused: "+problem)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return Unsent(CodeNoSuchHost, "the host name does not exist")
		}
		return Unsent(CodeDNS, "the host name could not be looked up")
	}
	var alert tls.AlertError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &alert), errors.As(err, &record):
		return Unsent(CodeTLS, "the TLS handshake failed")
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unsent(CodeRefused, "the connection was refused")
	case timeout(err):
		return Unsent(CodeNotConnected, "no connection in time; the request was not sent")
	}
	return Unsent(CodeNotConnected, "the connection failed before the request was sent")
}

func lostAfterWrite(err error) Verdict {
	switch {
	case timeout(err):
		return Lost(schemas.CodeTimeout, "no answer in time")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Lost(CodeReset, "the connection was reset after the request was sent")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Lost(CodeClosed, "the connection was closed before the answer was complete")
	}
	return Lost(CodeConnectionLost, "the connection was lost after the request was sent")
}

// certificateProblem names what is wrong with a certificate, or is "".
func certificateProblem(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var roots x509.SystemRootsError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not yet valid"
	case errors.As(err, &invalid):
		return "it is not valid for this use"
	case errors.As(err, &host):
		return "it is for another host name"
	case errors.As(err, &authority):
		return "it is signed by an unknown authority"
	case errors.As(err, &roots):
		return "this machine's root certificates could not be read"
	case errors.As(err, &verification):
		return "it could not be verified"
	}
	return ""
}

// Ended judges an attempt whose context ended: err is the context's error and cause
// its cause. Running out of time is told apart from being stopped.
func Ended(err, cause error, phase Phase) Verdict {
	v := Verdict{Class: Transient, Phase: phase, Code: schemas.CodeInterrupted, Message: "the attempt was stopped"}
	switch {
	case timeout(err):
		v.Code, v.Message = schemas.CodeTimeout, "the attempt ran out of time"
	case cause != nil:
		v.Message += ": " + clip(cause.Error(), 200)
	}
	if phase == NotSent {
		v.Message += " before the request was sent"
	}
	return v
}

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
