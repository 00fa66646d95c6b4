package app

import (
	"context"
	"strings"
	"time"

	"tollgate/internal/metrics"
)

// Missing says why the dispatcher is not ready, a line each; nothing when it is.
func (a *App) Missing() []string {
	var lines []string
	if !a.term.Valid() {
		lines = append(lines, "ownership: another dispatcher owns the ledger, or this one could not renew its term; nothing is claimed")
	}
	if !a.nc.IsConnected() {
		lines = append(lines, "nats: the connection is "+strings.ToLower(a.nc.Status().String()))
	}
	if tools := a.consumer.Unbound(); len(tools) > 0 {
		lines = append(lines, "consumers: nothing is pulled for "+strings.Join(tools, ", "))
	}
	if err := a.ledgerStatus().Error; err != "" {
		lines = append(lines, "ledger: "+err)
	}
	return lines
}

// readState reads every part, for a scrape. One that does not answer fails alone.
func (a *App) readState(ctx context.Context) metrics.State {
	results, audits, slots := a.ledger.Pending()
	st := metrics.State{Missing: a.Missing(), Owner: a.term.Valid(), Ledger: a.ledger.Stats(), Abandoned: a.disp.Abandoned.Load(),
		Owed: map[string]int{"result": results, "audit": audits, "letter_or_retry": slots}, Failed: map[string]bool{}}
	for _, part := range []string{"streams", "backlog", "letters"} {
		st.Failed[part] = false
	}
	st.Running, st.Waiting = a.ledger.Counts()
	pauses := a.ledger.Pauses()
	for _, t := range a.tools {
		slots := a.disp.Slots(t)
		_, paused := pauses[t.Name]
		st.Tools = append(st.Tools, metrics.ToolState{Name: t.Name, Running: slots.InUse(), AtMost: slots.Cap, Paused: paused})
	}
	for _, name := range a.dependencies() {
		d, _ := a.catalogue.Dependency(name)
		h := a.disp.Health(name)
		st.Dependencies = append(st.Dependencies, metrics.DependencyState{Name: name, Breaker: h.Breaker, Tokens: h.Tokens, Burst: d.Quota.Burst})
	}
	a.readStreams(ctx, &st)
	var err error
	if st.Backlogs, err = a.consumer.Backlogs(ctx); err != nil {
		st.Failed["backlog"] = true
	}
	if st.Letters, err = a.letters.Tally(ctx); err != nil {
		st.Failed["letters"] = true
	}
	return st
}

func (a *App) readStreams(ctx context.Context, st *metrics.State) {
	n := a.names
	for _, name := range []string{n.Calls, n.Jobs, n.Retry, n.Results, n.Letters, n.Audit} {
		s, err := a.js.Stream(ctx, name)
		if err != nil {
			st.Failed["streams"] = true
			continue
		}
		info := s.CachedInfo()
		st.Streams = append(st.Streams, metrics.StreamState{Name: name, Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes})
		offset := time.Until(info.TimeStamp)
		st.ClockOffset = &offset
	}
}
