package http_test

import (
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
	httptool "tollgate/tools/http"
)

var attempt = dispatcher.Invocation{
	Tool: "pay", Tenant: "default", Run: "run_1/a", Call: "c1", Key: "k1", Attempt: 2, Generation: 1,
	Deadline:    time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC),
	TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
	Arguments: []byte(`{"b": 1, "a":"x"}`),
}

func executor(t *testing.T, s httptool.Spec) *httptool.Executor {
	t.Helper()
	e, err := httptool.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func serve(t *testing.T, h nethttp.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func short(v classify.Verdict) string {
	if v.OK() {
		return "ok " + v.Phase.String()
	}
	return v.Class.String() + " " + v.Phase.String() + " " + v.Code
}

// I7 at the executor: bytes, key and everything an attempt is told arrive unchanged.
func TestRequestAsSent(t *testing.T) {
	var got *nethttp.Request
	var body []byte
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Idempotent-Replayed", "true")
		io.WriteString(w, `{"ok": true}`)
	})
	e := executor(t, httptool.Spec{URL: s.URL + "/pay?fixed=1", Header: map[string]string{"Authorization": "Bearer s3cr3t"}})
	v := e.Execute(t.Context(), attempt)
	if !v.OK() || string(v.Structured) != `{"ok": true}` || !v.ToolRepeated {
		t.Fatalf("verdict %+v", v)
	}
	if got.Method != "POST" || got.RequestURI != "/pay?fixed=1" || string(body) != string(attempt.Arguments) {
		t.Errorf("%s %s with %s", got.Method, got.RequestURI, body)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": "k1", "Tollgate-Run-Id": "run_1/a", "Tollgate-Call": "c1", "Tollgate-Attempt": "2",
		"Tollgate-Generation": "1", "Tollgate-Deadline": "2026-03-01T12:00:00.000000005Z",
		"traceparent": attempt.TraceParent, "tracestate": "a=b", "Authorization": "Bearer s3cr3t", "Content-Type": "application/json",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
}

func TestArgumentsInTheQuery(t *testing.T) {
	var uri atomic.Value
	s := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { uri.Store(r.RequestURI) })
	for _, method := range []string{"GET", "DELETE"} {
		e := executor(t, httptool.Spec{URL: s.URL + "/find?token=t", Method: method})
		in := attempt
		in.Arguments = []byte(`{"q":"a&token=u b","n":9007199254740993,"yes":true,"none":null}`)
		if v := e.Execute(t.Context(), in); !v.OK() {
			t.Fatalf("%s: %+v", method, v)
		}
		if want := "/find?token=t&n=9007199254740993&q=a%26token%3Du+b&yes=true"; uri.Load() != want {
			t.Errorf("%s: %s, want %s", method, uri.Load(), want)
		}
		for _, bad := range []string{`{"q":[1]}`, `{"q":{}}`, `{"token":"mine"}`} {
			in.Arguments = []byte(bad)
			v := e.Execute(t.Context(), in)
			if v.For != classify.ForRepair || v.Phase != classify.NotSent || v.Code != schemas.CodeInvalidArguments {
				t.Errorf("%s %s: %+v", method, bad, v)
			}
		}
	}
}

// B43, DESIGN 13: one attempt is one request, whatever comes back.
func TestOneRequestPerAttempt(t *testing.T) {
	var requests atomic.Int32
	var answer atomic.Int32
	s := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(int(answer.Load()))
	})
	e := executor(t, httptool.Spec{URL: s.URL, Rules: classify.Rules{NotExecutedOn: []int{429}}})
	for status, want := range map[int]string{
		503: "transient no_answer HTTP_503", 429: "transient not_sent HTTP_429", 400: "permanent answered HTTP_400",
		401: "permanent answered HTTP_401", 418: "unclassified answered HTTP_418", 204: "ok answered",
	} {
		requests.Store(0)
		answer.Store(int32(status))
		v := e.Execute(t.Context(), attempt)
		if short(v) != want || requests.Load() != 1 {
			t.Errorf("%d: %s after %d requests, want %s after 1", status, short(v), requests.Load(), want)
		}
		if v.Class == classify.Transient && v.RetryAfter != 7*time.Second {
			t.Errorf("%d: stated wait %v", status, v.RetryAfter)
		}
	}
}

// B88, B04: silence ends with the context, and nobody knows what happened.
func TestSilence(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { <-release })
	t.Cleanup(func() { close(release) })
	e := executor(t, httptool.Spec{URL: s.URL})

	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("own cause"))
	defer cancel()
	began := time.Now()
	v := e.Execute(ctx, attempt)
	if took := time.Since(began); short(v) != "transient no_answer TIMEOUT" || took > time.Second {
		t.Errorf("timeout: %s after %v", short(v), took)
	}
	ctx2, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { stop(errors.New("shutting down")) })
	v = e.Execute(ctx2, attempt)
	if short(v) != "transient no_answer INTERRUPTED" || !strings.Contains(v.Message, "shutting down") {
		t.Errorf("stopped: %s %q", short(v), v.Message)
	}
	if v = e.Execute(ctx2, attempt); short(v) != "transient not_sent INTERRUPTED" {
		t.Errorf("stopped before it began: %s", short(v))
	}
}

// B93: a server that echoes the request in an error gives nothing away.
func TestSecretsDoNotComeBack(t *testing.T) {
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.WriteHeader(400)
		io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("X-Api-Key")+" "+r.RequestURI+" bad amount")
	})
	spec := httptool.Spec{URL: s.URL + "/?token=t-99", Header: map[string]string{"Authorization": "Bearer s3cr3t-77", "X-Api-Key": "k-88"}}
	v := executor(t, spec).Execute(t.Context(), attempt)
	s.Close()
	lost := executor(t, spec).Execute(t.Context(), attempt)
	if !strings.Contains(v.Content[0].Text, "bad amount") {
		t.Errorf("the model reads the rest: %q", v.Content[0].Text)
	}
	for _, secret := range []string{"s3cr3t-77", "k-88", "t-99"} {
		for _, text := range []string{v.Message, v.Content[0].Text, lost.Message} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %q", text, secret)
			}
		}
	}
}

func TestSpecProblemsAreReportedTogether(t *testing.T) {
	_, err := httptool.New(httptool.Spec{
		URL: "ftp://h/?token=t-99", Method: "HEAD", MaxResult: -1,
		Header: map[string]string{"Tollgate-Call": "x", "A": "b\r\nC: d"}, Rules: classify.Rules{ErrorAt: "x"},
	})
	if err == nil || strings.Contains(err.Error(), "t-99") {
		t.Fatalf("error %v", err)
	}
	var missing []string
	for _, part := range []string{"url", "method", "Tollgate-Call", "header A", "max_result", "error_at"} {
		if !strings.Contains(err.Error(), part) {
			missing = append(missing, part)
		}
	}
	if diff := cmp.Diff([]string(nil), missing); diff != "" {
		t.Errorf("not named (-want +got):\n%s\nin %v", diff, err)
	}
	if _, err := httptool.New(httptool.Spec{URL: "http://user:pw@h/"}); err == nil {
		t.Error("a password in the URL was accepted")
	}
}
