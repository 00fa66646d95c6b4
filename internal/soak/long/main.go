// Command long is the long soak: a real nats-server and the real tollgate, each a
// process of its own with a disk of its own, under a steady mixed load, while both
// are killed, restarted and run out of disk. It checks from outside that every
// accepted call ends once, that nothing runs twice that must not, that every account
// is right and verify is green; it measures both processes and their stores, says
// whether they stay flat, and draws them.
//
// The agents, the tools and their books, the operator and the supervisor of both
// processes live in this process, which is not killed. Nothing else may depend on it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

// options are the flags.
type options struct {
	length, retention time.Duration
	rate, pace        float64
	seed              uint64
	out, inside       string
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 30*time.Minute, "how long the load and the faults last")
	flag.DurationVar(&o.retention, "retention", 2*time.Minute, "ledger.retention; calls must end 20s sooner")
	flag.Float64Var(&o.rate, "rate", 200, "calls a second")
	flag.Float64Var(&o.pace, "pace", 1, "stretches the time between faults; a short run needs less than 1")
	flag.Uint64Var(&o.seed, "seed", 0, "of the calls and the faults; 0 takes a new one and prints it")
	flag.StringVar(&o.out, "out", "soak-out", "directory for soak.csv, soak.svg, summary.txt and the logs")
	flag.StringVar(&o.inside, "inside", "", "internal: the prepared directory, in a namespace of its own")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func (o options) run() error {
	if o.retention < 30*time.Second || o.length <= 0 || o.rate <= 0 || o.pace <= 0 {
		return errors.New("-for, -rate and -pace must be above 0, and -retention at least 30s")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.inside != "" {
		return soak(ctx, o)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() >> 32
	}
	return o.prepare(ctx)
}

// prepare builds both programs and goes on in a namespace, where anybody may mount a
// small disk, and where nothing is left running whatever happens here.
func (o options) prepare(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "tollgate-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, source := range map[string]string{"tollgate": "tollgate/cmd/tollgate", "nats-server": "github.com/nats-io/nats-server/v2"} {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), source).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", source, err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"-Urmpf", "--mount-proc", "--kill-child", self, "-inside", dir, "-seed", fmt.Sprint(o.seed), "-for", o.length.String(),
		"-retention", o.retention.String(), "-rate", fmt.Sprint(o.rate), "-pace", fmt.Sprint(o.pace), "-out", o.out}
	cmd := exec.Command("unshare", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the soak of seed %d failed (it needs unshare and user namespaces): %w", o.seed, err)
	}
	return nil
}
