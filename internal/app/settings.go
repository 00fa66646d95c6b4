package app

import (
	"fmt"
	"maps"
	"slices"

	"tollgate/console"
	"tollgate/consumer"
	"tollgate/control"
	"tollgate/internal/config"
)

// settings is the configuration as it holds, for operators.
func (a *App) settings() control.Settings {
	c := a.opts.Config
	s := control.Settings{File: c.File(), Clocks: a.clocks(), Caps: a.caps(), Users: []string{}, Redact: map[string][]string{}}
	for _, v := range config.Describe(c) {
		s.Values = append(s.Values, control.Setting{Path: v.Path, Value: v.Text, Source: v.Source, Where: v.Where})
	}
	for _, t := range a.tools {
		if len(t.Redact) > 0 {
			s.Redact[t.Name] = t.Redact
		}
	}
	if c.HTTP != nil {
		for _, name := range slices.Sorted(maps.Keys(c.HTTP.Users)) {
			s.Users = append(s.Users, fmt.Sprintf("%s (%s)", name, c.HTTP.Users[name].Role))
		}
	}
	return s
}

// clocks are how long things are kept.
func (a *App) clocks() []control.Clock {
	keep := a.opts.Config.Ledger.Retention.D()
	return []control.Clock{
		{What: "the outcome of a call, under its key", For: keep + a.longestDeadline(), From: "its end", Path: "ledger.retention"},
		{What: "a stored result", For: keep, From: "its publication", Path: "ledger.retention"},
		{What: "an active dead letter", From: "kept until somebody decides about it"},
		{What: "a dead letter that was resolved or discarded", For: keep, From: "that decision", Path: "ledger.retention"},
		{What: "a bulk replay", For: keep, From: "its end", Path: "ledger.retention"},
		{What: "an operator's decision in the audit", From: "never removed"},
		{What: "a session of the console", For: console.SessionFor, From: "the sign-in, or until the dispatcher stops"},
		{What: "a link to the console", For: control.LinkFor, From: "its making; it signs in once"},
	}
}

// caps are the most there may be of something.
func (a *App) caps() []control.Cap {
	l := a.opts.Config.Limits
	caps := []control.Cap{
		{What: "arguments of one call", Most: int64(l.MaxBody), Unit: "bytes", Path: "limits.max_body"},
		{What: "result of one call", Most: int64(l.MaxResult), Unit: "bytes", Path: "limits.max_result"},
		{What: "request/reply calls waiting for a slot", Most: int64(l.EndpointQueue), Unit: "calls", Path: "limits.endpoint_queue"},
	}
	for _, st := range consumer.Streams(a.subjects, a.limits()) {
		if st.MaxBytes > 0 {
			caps = append(caps, control.Cap{What: "stream " + st.Name, Most: st.MaxBytes, Unit: "bytes"})
		}
		if st.MaxMsgsPerSubject > 1 {
			caps = append(caps, control.Cap{What: "messages of one tenant and tool in " + st.Name, Most: st.MaxMsgsPerSubject, Unit: "messages"})
		}
	}
	return caps
}
