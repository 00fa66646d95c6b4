package badinput

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"tollgate/deadletter"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

func code(outcome []byte) string {
	var o schemas.Outcome
	if err := json.Unmarshal(outcome, &o); err != nil {
		return "unreadable: " + err.Error()
	}
	return o.Code()
}

// spoilt is a good message with one thing wrong.
type spoilt struct {
	name  string
	spoil func(*nats.Msg)
	want  string // a part of where it ends
}

func set(name string, values ...string) func(*nats.Msg) {
	return func(m *nats.Msg) { m.Header[name] = values }
}

func body(text string) func(*nats.Msg) { return func(m *nats.Msg) { m.Data = []byte(text) } }

const malformed = "dead letter malformed: MALFORMED: The message is malformed: "

func bodies() []spoilt {
	return []spoilt{
		{"an empty body", body(""), malformed + "body"},
		{"an empty body with a Status header", func(m *nats.Msg) { m.Data = nil; m.Header.Set("Status", "503") }, malformed + "body"},
		{"null", body("null"), malformed + "body"},
		{"an array", body("[1]"), malformed + "body"},
		{"JSON cut off", body(`{"a":`), malformed + "body"},
		{"two JSON documents", body(`{"a":1} {}`), malformed + "body"},
		{"900,000 open brackets", body(strings.Repeat("[", 900_000)), malformed + "body"},
		{"objects nested 150,000 deep", body(strings.Repeat(`{"a":`, 150_000)), malformed + "body"},
		{"objects nested 100,000 deep and closed", body(strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)), malformed + "body"},
		{"bytes that are not text", body("\xff\xfe\x00"), malformed + "body"},
		{"text that is not UTF-8 inside JSON", body("{\"a\":\"\xff\"}"), malformed + "body: is not UTF-8"},
		{"half a surrogate pair inside JSON", body(`{"a":"\ud800"}`), malformed + "body: has half a character"},
		{"a byte order mark", body("\ufeff{}"), malformed + "body"},
		{"a key twice", body(`{"amount":1,"amount":1000}`), malformed + "body"},
		{"a key twice, once escaped", body(`{"a":1,"\u0061":2}`), malformed + "body"},
		{"NaN", body(`{"a":NaN}`), malformed + "body"},
		{"a number of 100,000 digits", body(`{"a":` + strings.Repeat("9", 100_000) + "}"), "outcome succeeded"},
		{"1e999999999", body(`{"a":1e999999999}`), "outcome succeeded"},
		{"1,000,000 bytes", body(`{"a":"` + strings.Repeat("x", 1_000_000) + `"}`), "TOO_LARGE"},
		{"more than the server takes", body(strings.Repeat("x", 2<<20)), "refused by the server"},
	}
}

func headers() []spoilt {
	drop := func(name string) func(*nats.Msg) { return func(m *nats.Msg) { delete(m.Header, name) } }
	bad := func(name, header string, values ...string) spoilt {
		return spoilt{name, set(header, values...), malformed + header}
	}
	return []spoilt{
		{"no run", drop(schemas.HeaderRun), malformed + schemas.HeaderRun},
		{"no key", drop(schemas.HeaderKey), malformed + schemas.HeaderKey},
		{"no deadline", drop(schemas.HeaderDeadline), malformed + schemas.HeaderDeadline},
		{"no header at all", func(m *nats.Msg) { m.Header = nil }, malformed + schemas.HeaderRun},
		bad("a run with an empty segment", schemas.HeaderRun, "a//b"),
		bad("a run of nine segments", schemas.HeaderRun, "a/b/c/d/e/f/g/h/i"),
		bad("a run that is a wildcard", schemas.HeaderRun, "*"),
		bad("a run with a control character", schemas.HeaderRun, "a\x01"),
		bad("a run of 10,000 bytes", schemas.HeaderRun, strings.Repeat("r", 10_000)),
		bad("two keys", schemas.HeaderKey, "a", "b"),
		{"a key in two spellings", func(m *nats.Msg) {
			delete(m.Header, schemas.HeaderKey)
			m.Header["idempotency-key"] = []string{"a"}
			m.Header["IDEMPOTENCY-KEY"] = []string{"b"}
		}, malformed + schemas.HeaderKey},
		bad("a key with a space", schemas.HeaderKey, "a b"),
		bad("a key that is not ASCII", schemas.HeaderKey, "schlüssel"),
		bad("a key that is not UTF-8", schemas.HeaderKey, "\xff\xfe"),
		bad("a key of 256 bytes", schemas.HeaderKey, strings.Repeat("k", 256)),
		bad("the deadline \"tomorrow\"", schemas.HeaderDeadline, "tomorrow"),
		bad("a deadline without an offset", schemas.HeaderDeadline, "2031-01-01T00:00:00"),
		bad("a deadline in epoch seconds", schemas.HeaderDeadline, "1924992000"),
		bad("a deadline in the year 9999", schemas.HeaderDeadline, "9999-12-31T23:59:59Z"),
		bad("a deadline before 1970", schemas.HeaderDeadline, "1969-07-20T20:17:40Z"),
		bad("a deadline on February 30", schemas.HeaderDeadline, "2031-02-30T00:00:00Z"),
		{"a deadline that has passed", set(schemas.HeaderDeadline, "2020-01-01T00:00:00Z"), "CALL_DEADLINE_EXCEEDED"},
		bad("version 99", schemas.HeaderVersion, "99"),
		bad("-1 attempts", schemas.HeaderRunAttempts, "-1"),
		bad("1e3 attempts", schemas.HeaderRunAttempts, "1e3"),
		bad("99999999999 attempts", schemas.HeaderRunAttempts, "99999999999"),
		bad("side effects in Arabic digits", schemas.HeaderRunSideEffects, "٣"),
		{"0 attempts", set(schemas.HeaderRunAttempts, "0"), "RUN_BUDGET_EXHAUSTED"},
		bad("a run deadline that is no time", schemas.HeaderRunDeadline, "soon"),
		{"a policy that does not exist", set(schemas.HeaderPolicy, "unlimited"), malformed + schemas.HeaderPolicy},
		bad("a tool call ID that is not UTF-8", schemas.HeaderToolCallID, "\xff"),
		bad("a traceparent that is not UTF-8", schemas.HeaderTraceParent, "\xff"),
		bad("a traceparent of 11,000 characters that take six bytes each", schemas.HeaderTraceParent, strings.Repeat("<", 11_000)),
		{"20,000 bytes of headers", set("X-Big", strings.Repeat("x", 20_000)), malformed + "headers"},
		{"100,000 bytes of headers", set("X-Big", strings.Repeat("x", 100_000)), "refused by the server"},
	}
}

// badMessages publishes each to the calls stream.
func badMessages(t *testing.T, b *table) {
	p := newPlace(t, "", nil)
	for i, c := range append(bodies(), headers()...) {
		m := worldtest.Msg{Tool: "good", Run: "bad", Key: fmt.Sprint("k", i)}
		n := m.Build()
		if strings.Contains(c.name, "attempts") { // a run of its own: what it names stays
			m.Run = fmt.Sprint("bad", i)
			n.Header.Set(schemas.HeaderRun, m.Run)
		}
		c.spoil(n)
		letters, ran := p.Letters(deadletter.Filter{}).Total, p.good.N()
		where := ""
		if err := p.publish(n); err != nil {
			where = "refused by the server: " + err.Error()
		} else {
			where = p.ending(m, letters)
		}
		if again := p.good.N() - ran; again > 1 || again == 1 != strings.HasPrefix(where, "outcome succeeded") {
			t.Errorf("%s: the tool ran %d times, and it ended in %s", c.name, again, where)
		}
		b.expect(t, "message", c.name, where, c.want)
		p.serves(c.name)
	}
	p.sound()
}
