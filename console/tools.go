package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
)

var toolsRoutes = map[string]handler{
	"GET /tools": tools, "GET /tools/{name}": tool,
	"POST /tools/{name}/pause": pauseTool, "POST /tools/{name}/resume": resumeTool,
}

// toolsPage is the catalogue.
type toolsPage struct {
	Rows            []toolRow
	Effects, States []string
}

type toolRow struct {
	control.ToolDetail
	Safe    string // whether a call may be repeated, in words
	Waiting uint64
}

func tools(v *visit) error {
	var p control.ToolsPage
	q := control.ToolsQuery{Tool: v.param("tool"), Effect: dedupe.Effect(v.param("effect")), State: v.param("state")}
	if err := v.ask(control.VerbToolsList, q, &p); err != nil {
		return err
	}
	data := toolsPage{Effects: []string{string(dedupe.Read), string(dedupe.Write)}, States: control.ToolStates}
	for _, t := range p.Tools {
		data.Rows = append(data.Rows, toolRow{t, safety(&t), waiting(&t)})
	}
	return v.show("tools", "Tools", data)
}

func waiting(t *control.ToolDetail) (n uint64) {
	for _, of := range t.Backlog {
		n += of
	}
	return n
}

// safety says what the tool's retry safety means for whoever repeats a call.
func safety(t *control.ToolDetail) string {
	switch {
	case t.Effect == dedupe.Read:
		return "repeating it changes nothing"
	case t.Safety == dedupe.Idempotent:
		return "repeating it changes nothing more"
	case t.Safety == dedupe.IdempotencyKey:
		return fmt.Sprintf("repeating it under the same key changes nothing more, for %s", brief(t.KeyRetention))
	}
	return "it must not be repeated: when an answer is lost, nobody guesses"
}

// breakerWords say what each state of a breaker means.
var breakerWords = map[string]string{
	"off":       "no breaker is configured",
	"closed":    "attempts pass",
	"open":      "its dependency keeps failing: attempts wait until it may be tried again",
	"half-open": "one attempt is let through to see whether its dependency works again",
}

// toolPage is one tool.
type toolPage struct {
	toolRow
	Breaker  string       // in words
	Opens    string       // when its breaker opens
	Lanes    []toolLane   // what may be named on each
	Policies []policyText // what the names stand for
	Backlog  []tally
	Letters  []deadletter.Group // active ones, by code
	Total    int                // of them
	Recent   []tally            // outcomes of the last calls
	Of       int                // calls looked at
	Calls    string
	Dead     string
}

type toolLane struct {
	Name, Default string
	Others        []string
}

type policyText struct{ Name, Words string }

type tally struct {
	Name, Link string
	N          uint64
}

// lastCalls is how many of a tool's calls its mix of outcomes is of.
const lastCalls = 200

func tool(v *visit) error {
	var t control.ToolDetail
	name := v.r.PathValue("name")
	if err := v.ask(control.VerbToolShow, control.ToolQuery{Tool: name}, &t); err != nil {
		return err
	}
	var groups control.GroupsPage
	if err := v.ask(control.VerbGroups, control.GroupsQuery{Filter: deadletter.Filter{Tool: name, Limit: 20}, By: "code"}, &groups); err != nil {
		return err
	}
	var calls control.CallsPage
	if err := v.ask(control.VerbCallsList, control.CallsQuery{Tool: name, Limit: lastCalls}, &calls); err != nil {
		return err
	}
	p := toolPage{toolRow: toolRow{t, safety(&t), waiting(&t)}, Breaker: breakerWords[t.Health.Breaker], Opens: opens(t.Limits.Dependency.Breaker),
		Letters: groups.Groups, Total: groups.Total, Recent: mix(name, calls.Calls), Of: len(calls.Calls),
		Calls: "/calls?" + url.Values{"tool": {name}}.Encode(), Dead: "/dead/list?" + url.Values{"tool": {name}}.Encode()}
	for l, names := range t.Policies {
		if len(names) > 0 {
			p.Lanes = append(p.Lanes, toolLane{string(l), names[0], names[1:]})
		}
	}
	slices.SortFunc(p.Lanes, func(a, b toolLane) int { return cmp.Compare(a.Name, b.Name) })
	for _, x := range t.Limits.Policies {
		p.Policies = append(p.Policies, policyText{x.Name, policyWords(&x)})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Backlog)) {
		p.Backlog = append(p.Backlog, tally{Name: name, N: t.Backlog[name]})
	}
	return v.show("tool", "Tool "+name, &p)
}

// mix counts how calls ended, or that they have not, the most frequent first.
func mix(tool string, calls []control.CallSummary) []tally {
	byWhat := map[string]*tally{}
	for _, c := range calls {
		q, what := url.Values{"tool": {tool}}, string(c.Status)
		if what == "" {
			what = c.State
			q.Set("state", c.State)
		} else {
			q.Set("status", what)
		}
		if c.Code != "" {
			what += " " + c.Code
		}
		if byWhat[what] == nil {
			byWhat[what] = &tally{Name: what, Link: "/calls?" + q.Encode()}
		}
		byWhat[what].N++
	}
	var all []tally
	for _, what := range slices.Sorted(maps.Keys(byWhat)) {
		all = append(all, *byWhat[what])
	}
	slices.SortStableFunc(all, func(a, b tally) int { return cmp.Compare(b.N, a.N) })
	return all
}

// opens says what opens a breaker.
func opens(l dispatcher.BreakerLimits) string {
	said := ""
	if l.Consecutive > 0 {
		said = fmt.Sprintf("after %d failures in a row", l.Consecutive)
	}
	if l.Ratio > 0 {
		if said != "" {
			said += ", or "
		}
		said += fmt.Sprintf("when %.0f %% of at least %d attempts in a minute fail", 100*l.Ratio, l.Least)
	}
	if said == "" {
		return ""
	}
	return "opens " + said + "; stays open for " + brief(l.Cooldown)
}

// policyWords is a policy as one would tell it.
func policyWords(p *dispatcher.Policy) string {
	return fmt.Sprintf("%d attempts of at most %s each, with waits of %s growing to %s between them (%s and more when told to slow down; "+
		"a stated wait is taken up to %s). A call's deadline is at most %s away. A run may make %d attempts, %d side effects and %d repairs in %s.",
		p.Attempts, brief(p.Timeout), brief(p.BackoffBase), brief(p.BackoffCap), brief(p.ThrottleBase), brief(p.MaxRetryAfter), brief(p.MaxDeadline),
		p.Run.Attempts, p.Run.SideEffects, p.MaxRepairs, brief(p.Run.Elapsed))
}

func pauseTool(v *visit) error {
	return v.switchTool(control.VerbToolPause, "%s is paused: its calls wait, until their deadlines.")
}

func resumeTool(v *visit) error { return v.switchTool(control.VerbToolResume, "%s is served again.") }

func (v *visit) switchTool(verb, said string) error {
	name, why := v.r.PathValue("name"), v.field("why")
	if why == "" {
		return wrongField("the reason", why, "a few words for the audit")
	}
	var d control.ToolDetail
	if err := v.ask(verb, control.ToolQuery{Tool: name, Why: why}, &d); err != nil {
		return err
	}
	return v.done("/tools/"+url.PathEscape(name), fmt.Sprintf(said, d.Name))
}
