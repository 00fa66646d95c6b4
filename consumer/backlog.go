package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tollgate/schemas"
)

// Backlog is what waits for one tool on one lane.
type Backlog struct {
	Lane    schemas.Lane
	Tool    string
	Retry   bool   // retries that have fired, else calls as they were published
	Pending uint64 // not taken yet
	Held    int    // taken and not settled
}

// Backlogs asks the server how much waits for every tool that is served: one request
// a stream and 256 tools. Armed retries are not in it; the ledger counts those.
func (c *Consumer) Backlogs(ctx context.Context) ([]Backlog, error) {
	var all []Backlog
	var problems []error
	lanes := []schemas.Lane{schemas.Calls, schemas.Jobs}
	for _, stream := range []string{c.names.Calls, c.names.Jobs, c.names.Retry} {
		st, err := c.js.Stream(ctx, stream)
		if err != nil {
			problems = append(problems, fmt.Errorf("stream %s: %w", stream, err))
			continue
		}
		list := st.ListConsumers(ctx)
		for info := range list.Info() {
			lane, tool := schemas.Lane(info.Config.Metadata["tollgate.lane"]), info.Config.Metadata["tollgate.tool"]
			if slices.Contains(lanes, lane) && slices.Contains(c.served(), tool) {
				all = append(all, Backlog{Lane: lane, Tool: tool, Retry: stream == c.names.Retry, Pending: info.NumPending, Held: info.NumAckPending})
			}
		}
		if err := list.Err(); err != nil {
			problems = append(problems, fmt.Errorf("consumers of stream %s: %w", stream, err))
		}
	}
	return all, errors.Join(problems...)
}

// Unbound names the tools that nothing is pulled for now, because a consumer of theirs
// is not there: all of them before Run has bound them and when it stops.
func (c *Consumer) Unbound() []string {
	if !c.pulls.Load() {
		return c.served()
	}
	var names []string
	for _, s := range c.bound {
		if s.gone.Load() && !slices.Contains(names, s.tool.Name) {
			names = append(names, s.tool.Name)
		}
	}
	return names
}
