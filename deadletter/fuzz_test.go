package deadletter

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// Whoever wrote a letter, it is shown as far as it goes, and can be given on as JSON.
func FuzzReadLetter(f *testing.F) {
	f.Add("tollgate.dlq.default.failed.crm.find.c.0", schemas.HeaderOutcome, `{"v":1,"status":"failed","error":{"code":"X"}}`, []byte(`{}`))
	f.Add("tollgate.dlq.t.failed.x.c.1", schemas.HeaderOriginSequence, "-1", []byte("\xff"))
	f.Add("elsewhere", schemas.HeaderFirstSeen, "9999-99-99T00:00:00Z", []byte(nil))
	f.Add("tollgate.dlq.....0", schemas.HeaderOutcome, `{"v":1,"attempts":[null],"structured":{"a":`, []byte("x"))
	f.Add("tollgate.dlq.t.failed.x.c.1", schemas.HeaderDiedAt, "10000-01-01T00:00:00Z", []byte("x"))
	f.Fuzz(func(t *testing.T, subject, name, value string, body []byte) {
		subjects, _ := schemas.NewSubjects("")
		l := read(subjects, &jetstream.RawStreamMsg{Subject: subject, Header: nats.Header{name: {value}}, Data: body, Sequence: 7})
		if l.Sequence != 7 || l.State != schemas.LetterActive || l.Attempts < 0 && name != schemas.HeaderAttempt {
			t.Errorf("%+v", l)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("it cannot be shown: %v", err)
		}
	})
}

// The letter of whatever message was refused can be stored: its headers fit and hold
// no line break, and its subject is one of ours.
func FuzzRefusalLetter(f *testing.F) {
	f.Add("default", "crm.find", "X-Trace", "a\r\nNats-Rollup: all", "the body is empty", []byte(""))
	f.Add("*", ">", "Nats-Rollup", "all", strings.Repeat("x", 100_000), []byte("{"))
	f.Add("", "a b", "Status", "503", "\xff\r\n", []byte("x"))
	f.Fuzz(func(t *testing.T, tenant, tool, name, value, why string, body []byte) {
		subjects, _ := schemas.NewSubjects("")
		d := dispatcher.Delivery{Tenant: tenant, Tool: tool, Header: schemas.Header{name: {value}}, Body: body, Origin: schemas.Origin{Subject: "tollgate.calls.x", Time: time.Unix(0, 0)}}
		o := &schemas.Outcome{V: 1, Status: schemas.Rejected, Error: &schemas.Error{Code: schemas.CodeMalformed, Message: why}}
		m := refusalMessage(subjects, d, o, schemas.ReasonMalformed, "m0123456789")
		if size := schemas.Header(m.Header).Size(); size > 64<<10 {
			t.Errorf("%d bytes of headers", size)
		}
		for k, vs := range m.Header {
			if strings.HasPrefix(strings.ToLower(k), "nats-") || strings.EqualFold(k, "status") {
				t.Errorf("%q is carried on", k)
			}
			for _, v := range vs {
				if strings.ContainsAny(v, "\r\n") {
					t.Errorf("%s: %q", k, v)
				}
			}
		}
		if at, err := subjects.ParseLetter(m.Subject); err != nil || strings.ContainsAny(m.Subject, "*> \r\n") || at.Call != "m0123456789" {
			t.Errorf("subject %q: %v", m.Subject, err)
		}
	})
}

// What the index reads of an outcome is what a full reading finds in it.
func FuzzReadBrief(f *testing.F) {
	f.Add(`{"v":1,"lane":"jobs","attempts":[{"n":1,"message":"}\"]"}],"error":{"code":"X","message":"a \"b\" é","class":"permanent"},"timing":{"deadline":"2026-11-30T12:00:00Z"}}`)
	f.Add(`{"v" : 1 , "error" : null, "structured":{"a":[1,2,{"b":"\\"}]} }`)
	f.Add(`{"v":1,"error":{"code":"C","message":"m","last_failure":{"code":"HTTP_503","class":"transient","message":"503"}}}`)
	f.Add(`{"v":1,"v":2}`)
	f.Add(`{}`)
	f.Add(`{"v":`)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := readBrief(text)
		var whole struct {
			V      int            `json:"v"`
			Lane   schemas.Lane   `json:"lane"`
			Error  *schemas.Error `json:"error"`
			Timing struct {
				Deadline time.Time `json:"deadline"`
			} `json:"timing"`
		}
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&whole) != nil || strings.Contains(text, `\u`) || strings.ContainsAny(text, "VLET") { // names in another spelling are no names of ours
			return
		}
		if ok != (whole.V != 0) || ok && (got.V != whole.V || got.Lane != whole.Lane || !reflect.DeepEqual(got.Error, whole.Error) || !got.Timing.Deadline.Equal(whole.Timing.Deadline)) {
			t.Errorf("%+v (%v), want %+v", got, ok, whole)
		}
	})
}
