package demo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// The ways a tool of the demonstration can behave, chosen by the argument "mode".
const (
	ModeOK        = "ok"        // it works; so does a call without a mode
	ModeFlaky     = "flaky"     // the first "fails" requests of a key get 503, then it works
	ModeDown      = "down"      // always 503
	ModeThrottled = "throttled" // the first "fails" requests get 429 with Retry-After: 1
	ModeBusy      = "busy"      // the first "fails" requests get a tool error that says to wait "wait_ms"
	ModeSlow      = "slow"      // it takes "wait_ms"
	ModeLost      = "lost"      // it acts, and the answers to the first "fails" requests are lost: the connection breaks
	ModeHang      = "hang"      // it acts, and then never answers
)

// Args are the arguments that all HTTP tools of the demonstration take.
type Args struct {
	Mode   string `json:"mode,omitempty"`
	Fails  int    `json:"fails,omitempty"` // 0: 1
	WaitMS int    `json:"wait_ms,omitempty"`
	Cents  int64  `json:"amount_cents,omitempty"`
	To     string `json:"to,omitempty"`
}

// Functions are the tools that are Go functions.
func Functions() map[string]function.Func {
	return map[string]function.Func{"echo": func(_ context.Context, in dispatcher.Invocation) (any, error) {
		return json.RawMessage(in.Arguments), nil
	}}
}

func (w *World) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /flaky", w.tool("demo.flaky", func(Args, string) (any, bool, error) {
		return map[string]any{"answer": 42}, false, nil
	}))
	mux.HandleFunc("POST /pay", w.tool("demo.pay", func(a Args, key string) (any, bool, error) {
		return w.table.pay(Payment{Tool: "demo.pay", Key: key, Cents: a.Cents, To: a.To}, true)
	}))
	mux.HandleFunc("POST /wire", w.tool("demo.wire", func(a Args, key string) (any, bool, error) {
		return w.table.pay(Payment{Tool: "demo.wire", Key: key, Cents: a.Cents, To: a.To}, false)
	}))
	mux.HandleFunc("POST /heal", func(http.ResponseWriter, *http.Request) { w.Heal() })
	mux.HandleFunc("POST /break", func(http.ResponseWriter, *http.Request) { w.Break() })
	return mux
}

// tool answers for one tool: it fails as the arguments say, else it acts.
func (w *World) tool(name string, act func(a Args, key string) (result any, repeated bool, err error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		var a Args
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(body, &a)
		}
		if err != nil {
			http.Error(rw, "the body is not what this tool takes: "+err.Error(), http.StatusBadRequest)
			return
		}
		key := r.Header.Get(schemas.HeaderKey)
		n, healed := w.arrived(name, key)
		failing := !healed && n <= max(1, a.Fails)
		if !healed && refused(rw, a, failing) {
			return
		}
		if a.Mode == ModeSlow && !pause(r.Context(), time.Duration(a.WaitMS)*time.Millisecond) {
			return
		}
		result, repeated, err := act(a, key)
		switch {
		case err != nil:
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		case a.Mode == ModeHang && !healed:
			<-r.Context().Done()
		case a.Mode == ModeLost && failing:
			panic(http.ErrAbortHandler) // the server breaks the connection
		default:
			answer(rw, result, repeated)
		}
	}
}

// refused answers a request that fails without acting, and reports whether it did.
func refused(rw http.ResponseWriter, a Args, failing bool) bool {
	switch {
	case a.Mode == ModeDown, a.Mode == ModeFlaky && failing:
		http.Error(rw, "try again later", http.StatusServiceUnavailable)
	case a.Mode == ModeThrottled && failing:
		rw.Header().Set("Retry-After", "1")
		http.Error(rw, "too many requests", http.StatusTooManyRequests)
	case a.Mode == ModeBusy && failing:
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusTooManyRequests)
		body, _ := json.Marshal(map[string]any{"code": "POOL_EXHAUSTED", "retryable": true, "retry_after_ms": a.WaitMS, "stop_reason": nil})
		_, _ = rw.Write(body)
	default:
		return false
	}
	return true
}

func answer(rw http.ResponseWriter, result any, repeated bool) {
	body, err := json.Marshal(result)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	if repeated {
		rw.Header().Set("Idempotent-Replayed", "true")
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(body) // a reader that has gone away is the reader's affair
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
