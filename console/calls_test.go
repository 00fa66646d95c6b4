package console_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
)

var callLink = regexp.MustCompile(`href="/calls/([0-9a-v]{26})"`)

// listed are the calls of a page, in its order.
func listed(page string) (ids []string) {
	for _, m := range callLink.FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// Every part of the filter narrows the list, on the page as in the service.
func TestCallsAreFiltered(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		inOrder(t, r.page("/calls"), "No calls yet", "tollgate call demo.echo")
		call(w, worldtest.Msg{Tool: "look.up", Run: "a", Key: "1"})
		call(w, worldtest.Msg{Tool: "look.up", Run: "a/b", Key: "2", Body: `{"mode":"down"}`})
		call(w, worldtest.Msg{Tool: "pay.never", Run: "c", Key: "<i>", Body: `{"mode":"hang"}`})
		for query, want := range map[string]int{"": 3, "?tool=look.*": 2, "?run=a": 2, "?run=a/b": 1, "?key=1": 1, "?status=unknown_outcome": 1, "?state=done": 1, "?state=dead&tool=pay.never": 1, "?tenant=other": 0} {
			if n := len(listed(r.page("/calls" + query))); n != want {
				t.Errorf("%q: %d calls, want %d", query, n, want)
			}
		}
		page := r.page("/calls?run=a")
		inOrder(t, page, `value="a"`, "✗ exhausted", `href="/calls?run=a%2Fb"`, "4/4", `href="/calls?run=a&amp;tool=look.up"`, "✓ succeeded")
		hasNot(t, r.page("/calls"), "<i>")
		inOrder(t, r.page("/calls?tool=nothing"), "No call matches", `href="/calls"`)
	})
}

// Each call is on just one page, however many wait and however many have ended; a list
// that stopped at the first page of waiting calls would hide the others.
func TestEveryCallIsOnOnePage(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		for i := range 60 {
			w.Publish(worldtest.Msg{Tool: "look.up", Run: "done", Key: fmt.Sprint(i)})
			w.Publish(worldtest.Msg{Tool: "slow.look", Run: "wait", Key: fmt.Sprint(i), Body: `{"mode":"later"}`, Deadline: time.Hour})
			time.Sleep(time.Duration(i%3) * time.Microsecond) // some at the same instant
		}
		w.Until(time.Minute, "60 wait", func() bool {
			return worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}).Waiting == 60
		})
		next := regexp.MustCompile(`href="(/calls\?cursor=\d+)" rel="next"`)
		seen, path := map[string]int{}, "/calls"
		for range 5 {
			page := r.page(path)
			for _, id := range listed(page) {
				seen[id]++
			}
			m := next.FindStringSubmatch(page)
			if m == nil {
				break
			}
			path = m[1]
		}
		for id, n := range seen {
			if n > 1 {
				t.Errorf("%s is on %d pages", id, n)
			}
		}
		for i := range 60 {
			for tool, run := range map[string]string{"look.up": "done", "slow.look": "wait"} {
				if id := worldtest.CallID(worldtest.Msg{Tool: tool, Run: run, Key: fmt.Sprint(i)}); seen[id] == 0 {
					t.Errorf("call %d of %s, %s, is on none", i, tool, id)
				}
			}
		}
		if len(seen) != 120 {
			t.Errorf("%d calls were listed, want 120", len(seen))
		}
	})
}

// A filter that nothing matches looks at a bounded number of calls, and says where to
// go on; nothing is lost between the parts.
func TestASearchGoesOnWhereItStopped(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		for i := range 25 {
			call(w, worldtest.Msg{Tool: "look.up", Run: "r", Key: fmt.Sprint(i)})
		}
		q, parts, found := control.CallsQuery{Key: "0", Scan: 10}, 0, 0
		for {
			p := worldtest.Ask[control.CallsPage](w, control.VerbCallsList, q)
			found += len(p.Calls)
			if parts++; p.Next == 0 {
				break
			}
			q.After = p.Next
		}
		if parts != 3 || found != 1 {
			t.Errorf("%d calls found in %d parts, want 1 in 3", found, parts)
		}
	})
}
