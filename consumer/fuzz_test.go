package consumer

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"tollgate/schemas"
)

// Whatever a message's subject, delivery metadata and token say, it becomes a delivery;
// an illegal name is marked, and only the retry stream's messages carry a token.
func FuzzDelivery(f *testing.F) {
	const good = "$JS.ACK.TOLLGATE_RETRY.c.1.2.3.1700000000000000000.0"
	f.Add("tollgate.retry.calls.default.c.crm.find", good, "7")
	f.Add("tollgate.calls.default.crm.find", "$JS.ACK.TOLLGATE_CALLS.c.1.2.3.4.5", "18446744073709551616")
	f.Add("tollgate.calls.*.>", "$JS.ACK...........", "-1")
	f.Add("", "$JS.ACK.d.h.TOLLGATE_RETRY.c.x.y.z.9223372036854775807.0.r", "\x00")
	f.Fuzz(func(t *testing.T, subject, reply, token string) {
		subjects, _ := schemas.NewSubjects("")
		c := &Consumer{cfg: Config{Subjects: subjects}, names: StreamNames(subjects)}
		m := &nats.Msg{Subject: subject, Reply: reply, Header: nats.Header{schemas.HeaderToken: {token}}, Data: []byte("{}"), Sub: &nats.Subscription{}}
		d := c.delivery(m)
		switch {
		case d.Invalid == nil && (!schemas.ValidTenant(d.Tenant) || !schemas.ValidTool(d.Tool)):
			t.Errorf("%q was read as tenant %q, tool %q", subject, d.Tenant, d.Tool)
		case d.Token != 0 && !d.Retry:
			t.Errorf("%q from %q has a token", subject, d.Origin.Stream)
		case d.Retry != (d.Origin.Stream == "TOLLGATE_RETRY"), strings.ContainsAny(d.Origin.Stream, "."):
			t.Errorf("it came from %q", d.Origin.Stream)
		}
	})
}
