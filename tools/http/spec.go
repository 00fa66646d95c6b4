package http

import (
	"bytes"
	"crypto/tls"
	"errors"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tollgate/dispatcher/classify"
)

// Spec is one HTTP tool as the catalogue declares it.
type Spec struct {
	URL    string            // absolute, http or https; arguments never change its path or its own query
	Method string            // POST (the default), PUT, PATCH: arguments are the JSON body; GET, DELETE: the query
	Header map[string]string // sent as they are; secrets are already resolved

	Rules     classify.Rules
	MaxResult int64 // decompressed bytes; 0 is DefaultMaxResult

	DenyPrivate     bool          // refuse loopback, private and link-local addresses, as dialled
	FollowRedirects bool          // 307 and 308 on the same scheme, host and port, at most ten
	FreshConnection bool          // a connection per attempt: for tools that must not repeat, where a kept-alive connection dying under a request is an unknown outcome
	ConnectTimeout  time.Duration // of dialling and the TLS handshake; 0 is 5 s
	TLS             *tls.Config   // roots and client certificates; verification cannot be switched off
}

var methods = []string{"POST", "PUT", "PATCH", "GET", "DELETE"}

func (s Spec) withDefaults() Spec {
	if s.Method == "" {
		s.Method = nethttp.MethodPost
	}
	if s.MaxResult == 0 {
		s.MaxResult = DefaultMaxResult
	}
	if s.ConnectTimeout == 0 {
		s.ConnectTimeout = 5 * time.Second
	}
	return s
}

// check reports every problem of the spec. It never quotes the URL or a header's
// value: both may hold a secret.
func (s Spec) check() (*url.URL, error) {
	var problems []error
	add := func(field, problem, try string) { problems = append(problems, unexpected(field, problem, try)) }
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		add("url", "is not an absolute http or https URL", "write it as https://host/path")
	case u.User != nil:
		add("url", "holds a user name or password", "send them in an Authorization header")
	case u.Fragment != "":
		add("url", "has a fragment, which is never sent", "leave out what follows the #")
	}
	if s.Method != "" && !slices.Contains(methods, s.Method) {
		add("method", "is not one of "+strings.Join(methods, ", "), "use POST, the default")
	}
	for name, value := range s.Header {
		if reserved(name) {
			add("header "+name, "is set by Tollgate", "leave it out")
		}
		if name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(value, "\r\n\x00") {
			add("header "+name, "is not a legal header", "check its name and value for line breaks")
		}
	}
	if s.MaxResult < 0 || s.ConnectTimeout < 0 {
		add("max_result and connect_timeout", "must not be negative", "leave them out for the defaults")
	}
	if s.TLS != nil && s.TLS.InsecureSkipVerify {
		add("tls", "switches verification off", "add the server's authority to the roots instead")
	}
	if err := s.Rules.Validate(); err != nil {
		problems = append(problems, err)
	}
	return u, errors.Join(problems...)
}

func reserved(name string) bool {
	n := strings.ToLower(name)
	return strings.HasPrefix(n, "tollgate-") ||
		slices.Contains([]string{"idempotency-key", "x-idempotency-key", "traceparent", "tracestate", "host", "content-length", "transfer-encoding", "connection"}, n)
}

// harmless headers hold no secret, and hiding their values would hide ordinary words.
var harmless = []string{"accept", "accept-language", "content-type", "user-agent"}

// secrets lists what must not come back in an error: a failing server may echo the
// request.
func secrets(s Spec, u *url.URL) []string {
	var list []string
	add := func(v string) {
		if len(v) >= 4 { // shorter values would blank out innocent text
			list = append(list, v)
		}
	}
	for name, value := range s.Header {
		if slices.Contains(harmless, strings.ToLower(name)) {
			continue
		}
		add(value)
		if _, credential, ok := strings.Cut(value, " "); ok {
			add(credential)
		}
	}
	for _, values := range u.Query() {
		for _, v := range values {
			add(v)
			add(url.QueryEscape(v))
		}
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list
}

func redact(body []byte, secrets []string) []byte {
	for _, s := range secrets {
		body = bytes.ReplaceAll(body, []byte(s), []byte("[redacted]"))
	}
	return body
}
