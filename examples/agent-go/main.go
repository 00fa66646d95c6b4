// Command agent-go is an agent written with the Go SDK: it makes one call and says
// what came of it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/client"
)

func main() {
	run := fmt.Sprintf("run-%d", time.Now().Unix())
	if len(os.Args) > 1 {
		run = os.Args[1] // yours: the conversation's ID, from where you store it
	}
	if err := call(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), run, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func call(url, run string, out io.Writer) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS at %s: %w", url, err)
	}
	defer nc.Close()
	c, err := client.Connect(nc, client.Run(run))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	o, err := c.Call(ctx, "demo.echo", map[string]string{"text": "hello"}, client.Key(client.StepKey(run, "1")))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, o.Status, o.Content[0].Text)
	return err
}
