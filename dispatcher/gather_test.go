package dispatcher

import (
	"testing"
	"time"

	"tollgate/schemas"
)

// shop serves one tool under two policies.
type shop struct{}

func (shop) Tool(name string) (*Tool, bool) {
	return &Tool{Name: name, Policies: map[schemas.Lane][]string{schemas.Calls: {"short", "long"}}}, name == "sell"
}

func (shop) Policy(name string) (Policy, bool) {
	window, ok := map[string]time.Duration{"short": time.Minute, "long": time.Hour}[name]
	return Policy{Name: name, MaxDeadline: window}, ok
}

func (shop) Dependency(string) (Dependency, bool) { return Dependency{}, false }
func (shop) Allowed(tenant, tool string) bool     { return true }

// A request without a deadline has the window of the policy it asks for, and one for a
// tool that is not served is refused for that, and not for the deadline.
func TestTheEndpointFillsInTheDeadline(t *testing.T) {
	d := &Dispatcher{cfg: Config{Catalogue: shop{}, MaxBody: 1 << 10}}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	gather := func(tool, policy string, endpoint bool) *call {
		h := schemas.Header{}
		h.Set(schemas.HeaderRun, "r")
		h.Set(schemas.HeaderKey, "k")
		if policy != "" {
			h.Set(schemas.HeaderPolicy, policy)
		}
		return d.gather(Delivery{Lane: schemas.Calls, Tenant: "default", Tool: tool, Header: h, Body: []byte("{}"), Endpoint: endpoint}, now)
	}
	for policy, want := range map[string]time.Duration{"": time.Minute, "short": time.Minute, "long": time.Hour} {
		if c := gather("sell", policy, true); c.malformed != nil || !c.deadline.Equal(now.Add(want)) {
			t.Errorf("policy %q: deadline %v, malformed %v; want %v", policy, c.deadline, c.malformed, now.Add(want))
		}
	}
	if c := gather("nobody's", "", true); c.malformed != nil || c.tool != nil {
		t.Errorf("a tool that is not served: malformed %v", c.malformed)
	}
	if c := gather("sell", "", false); c.malformed == nil {
		t.Error("a stream's message needs no deadline")
	}
}
