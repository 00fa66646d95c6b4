package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// kinds are the executors that DESIGN section 13 is about.
var kinds = []string{"function", "http", "exec", "nats"}

// huge is more than the limit of a result; over NATS a megabyte would not leave the tool.
const huge, hugeOverNATS = 3 << 19, 900 << 10

// request is one request as a tool saw it.
type request struct {
	at                      time.Time
	key, attempt, gen, body string
}

// bank is the tool: one program, written once for each way of running it. Its
// arguments hold a script of words; the n-th request of a key acts on the n-th
// word, and the last word is repeated for ever:
//
//	ok         inserts the key's row and answers with it, or with the row that is there
//	slow       ok, after 400 ms
//	wait:N     the tool error contract: retryable, retry_after_ms N
//	busy       a failure that may clear, without a stated wait
//	permanent  a failure that the table or the error calls permanent
//	strange    a failure that is on no list
//	stop       retryable true, and a stop reason
//	lost       inserts the row, and gives no answer
//	vanish     gives no answer, and does nothing
//	huge       inserts the row, and answers with more than the limit
//	wide       a JSON result just below the limit
//	angles     the same, of characters that take six bytes in an outcome
//	hang       neither answers nor stops
//	panic      of a function
//
// The table is a directory with a file a row, made with O_EXCL: the file system
// itself holds the unique constraint, for a Go program as for a shell script.
type bank struct {
	dir     string
	release chan struct{} // closed when what hangs may end

	mu   sync.Mutex // guards seen
	seen map[string][]request
}

func newBank(t *testing.T) *bank {
	b := &bank{dir: t.TempDir(), release: make(chan struct{}), seen: map[string][]request{}}
	for _, kind := range kinds {
		if err := os.MkdirAll(filepath.Join(b.dir, kind), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "seen"), 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

// receive notes a request and returns the word it acts on.
func (b *bank) receive(kind string, h schemas.Header, body []byte) string {
	var args struct{ Script string }
	_ = json.Unmarshal(body, &args) // no script: no word, which answers nobody
	r := request{at: time.Now(), key: h.Get(schemas.HeaderKey), attempt: h.Get(schemas.HeaderAttempt), gen: h.Get(schemas.HeaderGeneration), body: string(body)}
	b.mu.Lock()
	defer b.mu.Unlock()
	id := kind + "/" + r.key
	b.seen[id] = append(b.seen[id], r)
	words := strings.Fields(args.Script)
	return words[min(len(b.seen[id]), len(words))-1]
}

// requests are what a tool saw of a downstream key, in order.
func (b *bank) requests(kind, key string) []request {
	if kind == "exec" {
		return b.commands(key)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]request{}, b.seen[kind+"/"+key]...)
}

// commands reads what the shell script wrote down.
func (b *bank) commands(key string) []request {
	var out []request
	for n := 1; ; n++ {
		dir := filepath.Join(b.dir, "seen", key+"."+strconv.Itoa(n))
		if _, err := os.Stat(dir); err != nil {
			return out
		}
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			return string(text)
		}
		ns, _ := strconv.ParseInt(read("at"), 10, 64)
		out = append(out, request{at: time.Unix(0, ns), key: read("key"), attempt: read("attempt"), gen: read("generation"), body: read("body")})
	}
}

// charge inserts the key's row and says whether it was there already.
func (b *bank) charge(kind, key string) (row []byte, repeated bool) {
	f, err := os.OpenFile(filepath.Join(b.dir, kind, key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if repeated = errors.Is(err, os.ErrExist); !repeated {
		if err != nil {
			panic(err)
		}
		f.Close()
	}
	return fmt.Appendf(nil, `{"row":%q,"repeated":%t}`, key, repeated), repeated
}

// rows are the keys in a tool's table.
func (b *bank) rows(t *testing.T, kind string) map[string]bool {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(b.dir, kind))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, f := range files {
		rows[f.Name()] = true
	}
	return rows
}

// check is the reconcile hook: it looks into the table.
func (b *bank) check(kind, key string) []byte {
	if _, err := os.Stat(filepath.Join(b.dir, kind, key)); err != nil {
		return []byte(`{"outcome":"undetermined"}`)
	}
	return fmt.Appendf(nil, `{"outcome":"happened","result":{"row":%q}}`, key)
}

// contract is a body of the tool error contract.
func contract(code string, after int, stop string) []byte {
	quoted := "null"
	if stop != "" {
		quoted = strconv.Quote(stop)
	}
	return fmt.Appendf(nil, `{"code":%q,"retryable":true,"retry_after_ms":%d,"stop_reason":%s}`, code, after, quoted)
}

func stated(word string) int {
	ms, _ := strconv.Atoi(strings.TrimPrefix(word, "wait:"))
	return ms
}

func wide(of string) []byte { return fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat(of, 700<<10)) }

// function is the bank as a Go function.
func (b *bank) function(ctx context.Context, in dispatcher.Invocation) (any, error) {
	switch word := b.receive("function", in.Header(), in.Arguments); word {
	case "busy":
		return nil, function.Transient("BUSY", "try later", 0)
	case "permanent":
		return nil, function.Permanent("NO_ACCOUNT", "no such account")
	case "strange":
		return nil, errors.New("something odd")
	case "stop":
		return nil, &function.Error{ToolErrorBody: schemas.ToolErrorBody{Code: "LOGIN", Retryable: true, RetryAfter: 100 * time.Millisecond, StopReason: schemas.AuthExpired}}
	case "lost", "vanish":
		if word == "lost" {
			b.charge("function", in.Key)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	case "hang":
		<-b.release
		return nil, ctx.Err()
	case "panic":
		panic("the tool is broken")
	case "huge":
		b.charge("function", in.Key)
		return strings.Repeat("x", huge), nil
	case "wide":
		return wide("w"), nil
	case "angles":
		return wide("<"), nil
	case "slow":
		time.Sleep(400 * time.Millisecond)
	case "ok":
	default:
		return nil, function.Transient("POOL_SATURATED", "no connection is free", time.Duration(stated(word))*time.Millisecond)
	}
	row, _ := b.charge("function", in.Key)
	return row, nil
}

// checkFunction is the hook as a Go function.
func (b *bank) checkFunction(_ context.Context, in dispatcher.Invocation) (any, error) {
	return b.check("function", in.Key), nil
}

// ServeHTTP is the bank as an HTTP service.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h := schemas.Header(r.Header)
	key := h.Get(schemas.HeaderKey)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/check" {
		w.Write(b.check("http", key))
		return
	}
	answer := func(status int, body []byte) { w.WriteHeader(status); w.Write(body) }
	switch word := b.receive("http", h, body); word {
	case "busy":
		answer(503, nil)
	case "permanent":
		answer(400, []byte(`{"reason":"no such account"}`))
	case "strange":
		answer(418, nil)
	case "stop":
		answer(503, contract("LOGIN", 100, "AUTH_EXPIRED"))
	case "lost":
		b.charge("http", key)
		panic(http.ErrAbortHandler)
	case "vanish":
		panic(http.ErrAbortHandler)
	case "hang":
		<-b.release
	case "huge":
		b.charge("http", key)
		w.Header().Set("Content-Type", "text/plain")
		answer(200, []byte(strings.Repeat("x", huge)))
	case "wide":
		answer(200, wide("w"))
	case "angles":
		answer(200, wide("<"))
	case "ok", "slow":
		if word == "slow" {
			time.Sleep(400 * time.Millisecond)
		}
		row, repeated := b.charge("http", key)
		w.Header().Set("Idempotent-Replayed", strconv.FormatBool(repeated))
		answer(200, row)
	default:
		answer(503, contract("POOL_SATURATED", stated(word), ""))
	}
}

// serve is the bank as a NATS service.
func (b *bank) serve(m *nats.Msg) {
	h := schemas.Header(m.Header)
	key := h.Get(schemas.HeaderKey)
	reply := nats.NewMsg(m.Reply)
	fail := func(code string, body []byte) {
		reply.Header.Set(schemas.HeaderServiceErrorCode, code)
		reply.Data = body
	}
	if strings.HasSuffix(m.Subject, ".check") {
		_ = m.Respond(b.check("nats", key))
		return
	}
	switch word := b.receive("nats", h, m.Data); word {
	case "busy":
		fail("503", nil)
	case "permanent":
		fail("400", []byte(`{"reason":"no such account"}`))
	case "strange":
		fail("odd", nil)
	case "stop":
		fail("503", contract("LOGIN", 100, "AUTH_EXPIRED"))
	case "lost":
		b.charge("nats", key)
		return
	case "vanish", "hang":
		return
	case "huge":
		b.charge("nats", key)
		reply.Data = []byte(strings.Repeat("x", hugeOverNATS))
	case "wide":
		reply.Data = wide("w")
	case "angles":
		reply.Data = wide("<")
	case "ok", "slow":
		if word == "slow" {
			time.Sleep(400 * time.Millisecond)
		}
		row, repeated := b.charge("nats", key)
		reply.Header.Set("Idempotent-Replayed", strconv.FormatBool(repeated))
		reply.Data = row
	default:
		fail("503", contract("POOL_SATURATED", stated(word), ""))
	}
	_ = m.RespondMsg(reply) // a lost reply shows as a call without its outcome
}

// command is the bank as a shell script: $1 is the script of words, $BANK the
// directory. "wait" leaves a child behind it that ignores SIGTERM as well.
const command = `
key=$IDEMPOTENCY_KEY
charge() {
	if ( set -C; : > "$BANK/exec/$key" ) 2>/dev/null; then repeated=false; else repeated=true; fi
	printf '{"row":"%s","repeated":%s}' "$key" "$repeated"
}
if [ "$1" = check ]; then
	if [ -e "$BANK/exec/$key" ]; then
		printf '{"outcome":"happened","result":{"row":"%s"}}' "$key"
	else
		printf '{"outcome":"undetermined"}'
	fi
	exit 0
fi
n=1
until mkdir "$BANK/seen/$key.$n" 2>/dev/null; do n=$((n + 1)); done
me=$BANK/seen/$key.$n
printf %s "$(date +%s%N)" > "$me/at"
printf %s "$key" > "$me/key"
printf %s "$TOLLGATE_ATTEMPT" > "$me/attempt"
printf %s "$TOLLGATE_GENERATION" > "$me/generation"
cat > "$me/body"
for word in $1; do
	[ "$n" = 1 ] && break
	n=$((n - 1))
done
case $word in
ok) charge ;;
slow) sleep 0.4; charge ;;
wait:*) printf '{"code":"POOL_SATURATED","retryable":true,"retry_after_ms":%s,"stop_reason":null}' "${word#wait:}"; exit 75 ;;
busy) exit 75 ;;
permanent) echo '{"reason":"no such account"}'; exit 65 ;;
strange) exit 1 ;;
stop) echo '{"code":"LOGIN","retryable":true,"retry_after_ms":100,"stop_reason":"AUTH_EXPIRED"}'; exit 75 ;;
lost) charge > /dev/null; kill -9 $$ ;;
vanish) kill -9 $$ ;;
huge) charge > /dev/null; head -c 1572864 /dev/zero | tr '\0' x ;;
wide) printf '{"text":"'; head -c 716800 /dev/zero | tr '\0' w; printf '"}' ;;
angles) printf '{"text":"'; head -c 716800 /dev/zero | tr '\0' '<'; printf '"}' ;;
hang) trap '' TERM; sleep 60 & printf %s "$!" > "$me/child"; wait ;;
esac
`
