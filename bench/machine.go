package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine is where and with what the numbers were made.
type machine struct {
	Day      string `json:"day"`
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
	Tollgate string `json:"tollgate"` // commit
	Asynq    string `json:"asynq"`
	Redis    string `json:"redis"`
	River    string `json:"river"`
	Postgres string `json:"postgres"`
	Jobs     int    `json:"jobs"`
	Rounds   int    `json:"rounds"`
	Command  string `json:"command"`
}

func about(ctx context.Context, o options, redis, postgres *server) machine {
	m := machine{Day: time.Now().UTC().Format(time.DateOnly), CPU: cpu(), CPUs: runtime.NumCPU(), Go: runtime.Version(), Redis: redis.version, Postgres: postgres.version,
		Kernel: said(ctx, "uname", "-sr"), Tollgate: said(ctx, "git", "describe", "--always", "--dirty"), Jobs: o.jobs, Rounds: o.rounds, Command: o.command}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, d := range b.Deps {
			switch d.Path {
			case "github.com/hibiken/asynq":
				m.Asynq = d.Version
			case "github.com/riverqueue/river":
				m.River = d.Version
			}
		}
	}
	return m
}

// words is the line below the table.
func (m machine) words() string {
	return fmt.Sprintf("Made on %s by `%s`: median of %d × %d laps of %d calls. Tollgate %s, asynq %s on Redis %s, River %s on PostgreSQL %s, %s, %s, %d CPUs (%s).",
		m.Day, m.Command, m.Rounds, laps, m.Jobs, m.Tollgate, m.Asynq, m.Redis, m.River, m.Postgres, m.Go, m.Kernel, m.CPUs, m.CPU)
}

// said is what a program answers; "unknown" where it is not there to be asked.
func said(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
