package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate/control"
)

// contractCheck is one promise of a tool, put to the test.
type contractCheck struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, failed, not checked
	Detail string `json:"detail,omitempty"`
}

const (
	checkOK     = "ok"
	checkFailed = "failed"
	notChecked  = "not checked"
)

func (s *shell) checkCommand() *cobra.Command {
	var k contract
	var args, path string
	c := &cobra.Command{Use: "check TOOL --args JSON", Short: "Run the contract tests against a running tool", Args: exactly(1, "a tool"), ValidArgsFunction: s.completeTools,
		Long: "REALLY CALLS THE TOOL, once or twice, with the arguments given: choose some that do no harm.\n\n" +
			"Through the dispatcher: a call succeeds; the same key again is answered without running; the same key\n" +
			"with other arguments is refused; arguments against the schema go back for repair.\n" +
			"With -c, and for a tool that declares retry_safety idempotency_key or idempotent: the request is delivered\n" +
			"to the tool a second time with the same downstream key, as a lost answer would, and must give the same result.",
		Example: "  tollgate tools check crm.upsert --args '{\"id\":\"test-1\"}' -c tollgate.yaml",
		RunE: func(c *cobra.Command, names []string) error {
			k.shell, k.tool, k.args = s, names[0], []byte(args)
			if path != "" {
				cfg, err := s.loadConfig(path)
				if err != nil {
					return err
				}
				k.config = cfg
			}
			var object map[string]json.RawMessage
			if json.Unmarshal(k.args, &object) != nil || object == nil {
				return usage("--args is not one JSON object", `--args '{"name":"value"}'`)
			}
			return s.checkTool(c.Context(), &k)
		}}
	f := c.Flags()
	f.StringVar(&args, "args", "", "arguments of a call that succeeds and does no harm")
	f.StringVar(&k.badArgs, "bad-args", "", "arguments that break the schema (default made from the schema)")
	f.StringVarP(&path, "config", "c", "", "the dispatcher's configuration: also deliver twice")
	required(c, "args")
	return c
}

func (s *shell) checkTool(ctx context.Context, k *contract) error {
	d, err := ask[control.ToolDetail](ctx, s, control.VerbToolShow, control.ToolQuery{Tool: k.tool})
	if err != nil {
		return err
	}
	k.detail = d
	checks, err := k.run(ctx)
	if err != nil {
		return err
	}
	failed := 0
	for _, x := range checks {
		if x.Result == checkFailed {
			failed++
		}
		if !s.json {
			s.line("%-11s  %s%s", x.Result, x.Name, suffix(": ", oneLine(x.Detail)))
		}
	}
	if s.json {
		err = s.printJSON("ToolCheck", map[string]any{"tool": k.tool, "ok": failed == 0, "checks": checks})
	} else if failed == 0 {
		s.line("%s keeps the contract", k.tool)
	} else {
		s.line("%s breaks the contract: %s", k.tool, fmt.Sprintf("%d of %d checks failed", failed, len(checks)))
	}
	if k.failed != "" {
		s.next("tollgate calls show " + s.short(k.failed))
	}
	if err == nil && failed > 0 {
		return told(exitFailure)
	}
	return err
}
