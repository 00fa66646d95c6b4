package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// tollgatePause is the longest pause before a call that is alone. Tollgate is told of
// a call, and does not poll: a short pause is as good as a long one.
const tollgatePause = "200ms"

// tollgate runs the program's own benchmark: the whole dispatcher with the embedded
// server, on empty files below dir, which is where the peers have theirs. It fails
// if the tool ran another number of times than there were calls and results. There are as
// many producers as the peers have.
func tollgate(dir, sync string, by way) func(context.Context, options) (turn, error) {
	return func(ctx context.Context, o options) (turn, error) {
		via := map[way]string{published: "calls", requested: "do"}[by]
		cmd := exec.CommandContext(ctx, o.tollgate, "bench", "--json", "--quiet", "--sync", sync, "--via", via, "--in-flight", strconv.Itoa(producers),
			"--calls", strconv.Itoa(o.jobs), "--payload", strconv.Itoa(payloadBytes), "--pause", tollgatePause)
		cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+dir), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return turn{}, fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
		return readTollgate(out)
	}
}

// idleCalls is how many calls tollgate bench measures alone.
const idleCalls = 200

func readTollgate(out []byte) (turn, error) {
	var r struct {
		CallsPerS float64 `json:"calls_per_s"`
		P50MS     float64 `json:"p50_ms"`
		FsyncMS   float64 `json:"fsync_p50_ms"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return turn{}, fmt.Errorf("read what tollgate bench says: %w", err)
	}
	if r.CallsPerS <= 0 || r.P50MS <= 0 {
		return turn{}, fmt.Errorf("tollgate bench names no rate or latency: is it another version? It said %s", out)
	}
	return turn{JobsPerS: r.CallsPerS, SettledMS: r.P50MS, IdleJobs: idleCalls, FsyncMS: r.FsyncMS}, nil
}
